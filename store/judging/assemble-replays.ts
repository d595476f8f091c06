/** Blame from what happened when a run was made again with something changed. */
import { TroupeError } from '../../errors.ts';
import { doverProgress } from '../methods/blame/dover-progress.ts';
import { runMethod } from '../methods/run.ts';
import { groupBy, mean } from '../methods/statistics.ts';
import { attempt } from './answers.ts';
import type { Assemble, Assembled, Assemblers } from './assembler.ts';
import { type Blamed, blame, nobody } from './blamed.ts';
import { stepKey } from './facts.ts';
import { type Judgement, score } from './judgement.ts';
import { truthsOn } from './named-feedback.ts';
import { placeOf, type Replay, type Run, runsOf, succeeded } from './replays.ts';
import { subgoalsOf } from './subgoals.ts';

const ofKind = (run: Run, kind: string): Replay[] =>
  run.replays.filter(({ intervention }) => intervention.kind === kind);
const bit = (success: boolean): 0 | 1 => (success ? 1 : 0);

/** The agent that the intervention names, else that of the step it changed. */
const agentAt = ({ intervention, place }: Pick<Replay, 'intervention' | 'place'>): string | null =>
  typeof intervention.agent === 'string' ? intervention.agent : (place?.step.agent ?? null);

/** A correction counts where its step, its agent and its outcome are known. A replay is not itself blamed. */
const byCorrection: Assemble = (method, params, facts) =>
  runsOf(facts).map((run) => {
    const outcome = succeeded(run.episode);
    if (run.of !== null) return nobody(run.episode, 'is_a_replay');
    if (outcome === null) return nobody(run.episode, 'outcome_unknown');
    const corrected = ofKind(run, 'correct');
    const replays = corrected.flatMap((replay) => {
      const [agent, fixed] = [agentAt(replay), succeeded(replay.episode)];
      return replay.place === null || agent === null || fixed === null
        ? []
        : [{ step: replay.place.index, agent, fixed: bit(fixed) }];
    });
    if (!outcome && replays.length === 0) return nobody(run.episode, 'no_replays');
    const label = runMethod(method, { outcome: bit(outcome), replays, ...params }) as {
      agent: string;
      step: number;
    } | null;
    const detail = { replays: replays.length, left_out: corrected.length - replays.length };
    if (label === null) return nobody(run.episode, outcome ? 'succeeded' : 'no_correction_helped', detail);
    return blame(
      run.episode,
      { agent_id: label.agent, step_id: run.steps[label.step]!.step_id },
      { ...detail, step: label.step },
    );
  });

/** The perturbed run is the one that fails, so the label stands with it. */
const byPerturbation: Assemble = (method, params, facts) => {
  const runs = runsOf(facts);
  const known = new Map(runs.map((run) => [run.episode.episode_id, run]));
  return runs.map((run) => {
    if (run.of === null || run.intervention.kind !== 'perturb') return nobody(run.episode, 'not_perturbed');
    const base = known.get(run.of);
    if (base === undefined) return nobody(run.episode, 'no_base');
    const place = placeOf(base.steps, run.intervention);
    const agent = agentAt({ intervention: run.intervention, place });
    if (place === null || agent === null) return nobody(run.episode, place === null ? 'no_such_step' : 'no_agent');
    const [before, after] = [succeeded(base.episode), succeeded(run.episode)];
    if (before === null || after === null) return nobody(run.episode, 'outcome_unknown');
    const input = { base_outcome: bit(before), injected_outcome: bit(after), agent, step: place.index };
    const label = runMethod(method, { ...input, ...params }) as { agent: string; step: number } | null;
    if (label === null) return nobody(run.episode, before ? 'survived' : 'base_failed');
    // The step of the run that was perturbed: the replay has steps of its own.
    return blame(
      run.episode,
      { agent_id: label.agent, step_id: null },
      { base: run.of, step: label.step, step_id: place.step.step_id },
    );
  });
};

/** Milestones of the run and of its replay, both from what was observed. The number is about the replay. */
const bySubgoals: Assemble = (method, params, facts) => {
  const subgoals = subgoalsOf(facts.observations);
  return runsOf(facts).map((run) => {
    const key = `e/${run.episode.episode_id}`;
    if (run.of === null) return score(key, null, 'not_a_replay');
    const [before, after] = [subgoals.met(run.of), subgoals.met(run.episode.episode_id)];
    if (before === null || after === null) return score(key, null, 'no_subgoals');
    const output = attempt(method, { before, after, ...params });
    return output instanceof TroupeError ? score(key, null, output.message) : score(key, output as number, null);
  });
};

/** Surest first. */
const VERDICTS = ['validated', 'partially_validated', 'inconclusive', 'refuted'];

/**
 * Replays of kind edit that test one hypothesis (the intervention's `hypothesis`, else the step it changed) are the runs of a verdict. Whether
 * a replay carried its edit out is feedback `intervention_fulfilled`, else the intervention's `fulfilled`. The reason is the verdict.
 */
const byHypothesis: Assemble = (method, params, facts) => {
  const subgoals = subgoalsOf(facts.observations);
  const fulfilled = truthsOn(facts.feedback, 'episode', 'intervention_fulfilled');
  const playedOut = (base: string, { episode, intervention }: Replay) => {
    const [before, after] = [subgoals.met(base), subgoals.met(episode.episode_id)];
    const progress =
      before && after && before.length === after.length ? runMethod(doverProgress, { before, after }) : null;
    const said = fulfilled.get(stepKey(episode.episode_id, '')) ?? intervention.fulfilled;
    return { success: succeeded(episode), fulfilled: typeof said === 'boolean' ? said : null, progress };
  };
  return runsOf(facts).flatMap((run): Judgement[] => {
    if (run.of !== null) return [nobody(run.episode, 'is_a_replay')];
    const hypotheses = groupBy(ofKind(run, 'edit'), ({ intervention, place }) =>
      typeof intervention.hypothesis === 'string' ? intervention.hypothesis : (place?.step.step_id ?? ''),
    );
    if (hypotheses.size === 0) return [nobody(run.episode, 'no_replays')];
    const rows = [...hypotheses].map(([hypothesis, replays]) => {
      const tried = replays.map((replay) => playedOut(run.episode.episode_id, replay));
      const reason = tried.some(({ success }) => success === null)
        ? 'outcome_unknown'
        : tried.some((one) => one.fulfilled === null)
          ? 'fulfilment_unknown'
          : tried.some(({ progress }) => progress === null)
            ? 'no_subgoals'
            : (runMethod(method, { runs: tried, ...params }) as string);
      const about = replays.find(({ place }) => place !== null) ?? replays[0]!;
      return { reason, who: whoIn(about), detail: { hypothesis, runs: tried } };
    });
    const place = ({ reason }: { reason: string }) =>
      VERDICTS.includes(reason) ? VERDICTS.indexOf(reason) : VERDICTS.length;
    return rows
      .sort((a, b) => place(a) - place(b))
      .map(({ who, reason, detail }, rank) => blame(run.episode, who, detail, { rank, reason }));
  });
};

const whoIn = (replay: Replay): Blamed => ({ agent_id: agentAt(replay), step_id: replay.place?.step.step_id ?? null });

/** Coalitions of more agents than these are not looked through before the method refuses them. */
const MOST_AGENTS = 16;

/**
 * The value of a coalition is the share of successes among the replays of kind repair whose `repaired` names exactly its agents; that of
 * nobody is the run's own outcome beside those that repaired nobody. Agents are those that took a step.
 */
const byCoalition: Assemble = (method, params, facts) =>
  runsOf(facts).flatMap((run): Judgement[] => {
    const { episode } = run;
    if (run.of !== null) return [nobody(episode, 'is_a_replay')];
    const agents = [...new Set(run.steps.flatMap(({ agent }) => agent ?? []))].sort();
    if (agents.length === 0) return [nobody(episode, 'no_agents')];
    if (agents.length > MOST_AGENTS) return [nobody(episode, 'too_many_agents', { agents: agents.length })];
    const tried = ofKind(run, 'repair').flatMap(({ episode: replay, intervention }) => {
      const success = succeeded(replay);
      const repaired = intervention.repaired;
      return success === null || !Array.isArray(repaired)
        ? []
        : [{ key: [...new Set(repaired.map(String))].sort().join('+'), success }];
    });
    const own = succeeded(episode);
    const all = own === null ? tried : [{ key: '', success: own }, ...tried];
    const values = Object.fromEntries(
      [...groupBy(all, ({ key }) => key)].map(([key, same]) => [key, mean(same.map(({ success }) => bit(success)))]),
    );
    const lacking = 2 ** agents.length - coalitionsOf(agents).filter((key) => Object.hasOwn(values, key)).length;
    if (lacking > 0) return [nobody(episode, tried.length === 0 ? 'no_replays' : 'missing_coalitions', { lacking })];
    const output = attempt(method, { agents, values, ...params });
    if (output instanceof TroupeError) return [nobody(episode, output.message)];
    const { phi, blame: shares } = output as Record<'phi' | 'blame', Record<string, number>>;
    return agents
      .toSorted((a, b) => shares[b]! - shares[a]!)
      .map((agent_id, rank) =>
        blame(episode, { agent_id, step_id: null }, { phi: phi[agent_id] }, { rank, value: shares[agent_id]! }),
      );
  });

const coalitionsOf = (agents: readonly string[]): string[] =>
  Array.from({ length: 2 ** agents.length }, (_, members) => agents.filter((_, i) => (members >> i) & 1).join('+'));

/**
 * Pairs of producer and consumer: feedback `data_deps` on the episode, whose value is a list of pairs of step ids or agents; else each
 * step with the step that it was expanded from. A row for each edge, in order: the blame goes to the producer.
 */
const byDependencies: Assemble = (method, params, facts) => {
  const own = groupBy(facts.steps, (step) => step.episode_id);
  return facts.episodes.flatMap((episode): Judgement[] => {
    const steps = own.get(episode.episode_id) ?? [];
    const edges =
      edgesIn(facts, episode.episode_id) ??
      steps.flatMap(({ parent_step_id, step_id }) =>
        parent_step_id === null ? [] : [[parent_step_id, step_id] as const],
      );
    if (edges.length === 0) return [nobody(episode, 'no_dependencies')];
    const inverted = runMethod(method, { edges, ...params }) as [string, string][];
    const known = new Map(steps.map((step) => [step.step_id, step]));
    return inverted.map(([consumer, producer], rank) => {
      const step = known.get(producer);
      const who = step ? { agent_id: step.agent, step_id: producer } : { agent_id: producer, step_id: null };
      return blame(episode, who, { from: consumer, to: producer }, { rank });
    });
  });
};

/** The last list of pairs that was said. */
function edgesIn({ feedback }: Assembled, episode: string): readonly (readonly [string, string])[] | null {
  const said = (feedback.get(episode) ?? []).filter(
    ({ name, target_kind }) => name === 'data_deps' && target_kind === 'episode',
  );
  const isEdge = (one: unknown): one is [string, string] =>
    Array.isArray(one) && one.length === 2 && one.every((end) => typeof end === 'string');
  const lists = said.flatMap(({ value_json }) =>
    Array.isArray(value_json) && value_json.every(isEdge) ? [value_json] : [],
  );
  return lists.at(-1) ?? null;
}

const scope = 'set';
export const REPLAY_ASSEMBLERS: Assemblers = {
  'corrected replays': { blame: { over: byCorrection, scope } },
  'perturbed replays': { blame: { over: byPerturbation, scope } },
  'subgoals before and after': { blame: { over: bySubgoals, reads: ['observations'], writes: ['scores'], scope } },
  'replays of an intervention': { blame: { over: byHypothesis, reads: ['observations', 'feedback'], scope } },
  'repaired coalitions': { blame: { over: byCoalition, scope } },
  'data dependencies': { blame: { over: byDependencies, reads: ['feedback'] } },
};
