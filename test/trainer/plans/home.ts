/** A home in the process: a database, recorded plays, a tiny model, and a worker for plans and their stages. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { decodeEnvelope } from '../../../ingest/events/decode.ts';
import type { Draft } from '../../../ingest/events/events.ts';
import { appendOwn } from '../../../ingest/log/own-event.ts';
import { postgresLog } from '../../../ingest/log/postgres.ts';
import { episodeId } from '../../../store/loop/play/ids.ts';
import { groupsOf, type RolloutSpec, rolloutSpec } from '../../../store/loop/play/rollout.ts';
import { waitProjected } from '../../../store/projecting/positions.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { storeHandlers } from '../../../store/queue/jobs/handlers.ts';
import { type Handler, type JobContext, requestJob, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import { trainerHandlers } from '../../../trainer/loop/jobs/handlers.ts';
import type { Checking } from '../../../trainer/loop/plan/check-found.ts';
import { planHandlers } from '../../../trainer/loop/plan/handlers.ts';
import type { PlanResult } from '../../../trainer/loop/plan/round.ts';
import type { RolloutResult } from '../../../trainer/loop/play/handler.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import { servingHandler } from '../../../trainer/loop/play/serving.ts';
import { stalenessOf } from '../../../trainer/loop/play/staleness.ts';
import { newModelDirectory } from '../../../trainer/model/model-directory.ts';
import { wordTokenizer } from '../../../trainer/model/tokens/tokenizer.ts';
import { WORDS } from '../../cli/support/plays.ts';
import { freshDatabase } from '../../support/database.ts';
import { tinyConfig } from '../tiny-checkpoint.ts';

/** What an episode of a rollout comes to; null where it fails, so that its group is partial. */
export type Played = {
  readonly reward?: number;
  readonly answer?: string;
  /** The agents that are asked, each by the policy; the solver alone if left out. */
  readonly roles?: readonly string[];
  readonly tokens?: number;
};
/** What the team does: it sees what the rollout was asked for. */
export type Team = (at: {
  readonly id: string;
  readonly spec: RolloutSpec;
  readonly task: string;
  readonly sample: number;
}) => Played | null;

/** Of `what is one plus zero`, and of the answer `one` with its end. */
const PROMPT = [2, 3, 6, 4, 5];
const ANSWER = [6, 1];

export async function planHome(events: readonly object[] = []) {
  const folder = mkdtempSync(join(tmpdir(), 'troupe-plans-'));
  const fresh = await freshDatabase({ max: 10 });
  const { db } = fresh;
  const context: JobContext = { db, log: postgresLog(db), now: () => new Date() };
  const stop = new AbortController();
  const { signal } = stop;
  const record = async (envelopes: readonly object[]) => {
    await context.log.append(
      envelopes.map((envelope) => {
        const decoded = decodeEnvelope(envelope);
        if (decoded.refusal) throw new Error(JSON.stringify(decoded.refusal));
        return decoded.event;
      }),
    );
    await waitProjected(db, { log: context.log });
  };
  const { dir: base, id: baseId } = await newModelDirectory(join(folder, 'model'), {
    config: {
      ...tinyConfig,
      ...{ num_hidden_layers: 1, vocab_size: WORDS.length + 2, bos_token_id: null },
    },
    tokenizer: wordTokenizer(WORDS, ['<pad>', '<end>'], { eos: '<end>', pad: '<pad>' }),
    chatTemplate: `{% for message in messages %}{{ message.content }} {% if message.role == 'assistant' %}<end>{% endif %}{% endfor %}`,
    seed: 3,
  });
  const settings = { checkpoints: join(folder, 'checkpoints'), threads: 1, codeVersion: 'test' };
  const datasets = join(folder, 'datasets');
  const runners = readRunners({
    solver: { workers: true, retries: 2 },
    writers: { workers: true },
    program: { command: ['no-such-team'], env: ['NO_SUCH_TOKEN'] },
  });
  const team: { plays: Team; answeredBy?: string } = { plays: () => null };
  const checking: Checking = {
    db,
    folder: join(folder, 'checks'),
    datasets,
    codeVersion: 'test',
    runners,
    engines: [],
    env: {},
  };
  const rollout: Handler = async ({ job_id, spec }) => playedBy(context, team, job_id, rolloutSpec(job_id, spec));
  const handlers = {
    ...storeHandlers(context, { datasets, codeVersion: 'test' }),
    ...trainerHandlers(context, settings),
    ...planHandlers(context, {
      ...settings,
      runners,
      checking,
      engines: [],
      env: {},
      work: join(folder, 'programs'),
      signal,
    }),
    serving: servingHandler(context, { signal }),
    rollout,
  };
  const working = Promise.all([
    runProjector(db, { signal, onTrouble: () => {} }),
    ...['a', 'b'].map((worker) => runJobs(context, { worker, handlers, signal, pollMs: 20 })),
  ]);
  await record(events);
  return {
    folder,
    context,
    base,
    /** Id of the weights of the model. */
    baseId,
    checking,
    team,
    record,
    /** Runs a plan to its end. */
    run: (run: string, plan: object, more: object = {}): Promise<PlanResult> => {
      const ended = requestJob(context, { job_id: run, kind: 'plan', spec: { plan, ...more } }).then(() =>
        waitForJob(db, run, { timeoutMs: 40_000 }),
      );
      // Whoever looks at its stages first waits for it afterwards.
      ended.catch(() => {});
      return ended as Promise<PlanResult>;
    },
    /** A process that samples answers for a policy by these weights. */
    serve: async (policy: string, checkpoint: string): Promise<void> => {
      team.answeredBy = checkpoint;
      await db.query(`delete from troupe.processes where policy = $1`, [policy]);
      await db.query(
        `insert into troupe.processes (process_id, role, policy, pid, heartbeat_at, models)
         values ($1, 'infer', $1, 1, clock_timestamp() + interval '1 day', $2)`,
        [policy, JSON.stringify([{ name: policy, checkpoint }])],
      );
    },
    /** What was asked of a job below a run, and what it came to. */
    job: async (id: string) => {
      const { rows } = await db.query<{
        kind: string;
        spec: Record<string, unknown>;
        /** Of a freeze, a training or a gate. */
        result: {
          readonly rows: Readonly<Record<string, number>>;
          readonly checkpoint_id: string;
          readonly directory: string;
          readonly main: { readonly incumbent: number; readonly candidate: number };
          readonly guardrails: readonly { readonly candidate: number }[];
        } | null;
      }>('select kind, spec, result from troupe.job_queue where job_id = $1', [id]);
      return rows[0];
    },
    /** The stages of a run in the order in which they were asked for, without their run. */
    stages: async (run: string) =>
      (
        await db.query<{ job_id: string }>(
          `select job_id from troupe.job_queue where job_id like $1 order by requested_at, job_id`,
          [`${run}/%`],
        )
      ).rows.map(({ job_id }) => job_id.slice(run.length + 1)),
    /** Waits until this job stands in the queue. */
    until: async (id: string): Promise<void> => {
      const asked = `select job_id = $1 as found, error from troupe.job_queue
        where job_id = $1 or job_id = split_part($1, '/', 1) and state = 'finished' order by 1 desc`;
      for (let tries = 0; tries < 1000; tries++) {
        const [row] = (await db.query<{ found: boolean; error: object | null }>(asked, [id])).rows;
        if (row?.found) return;
        if (row !== undefined) throw new Error(`${id} was not asked for: ${JSON.stringify(row.error)}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      throw new Error(`${id} was not asked for`);
    },
    close: async () => {
      stop.abort();
      await working;
      await fresh.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
export type PlanHome = Awaited<ReturnType<typeof planHome>>;

/** Plays a rollout as a team would that asks its policy `solver`, and records it as the gateway and the runner do. */
async function playedBy(
  context: JobContext,
  { plays, answeredBy }: { readonly plays: Team; readonly answeredBy?: string },
  id: string,
  spec: RolloutSpec,
): Promise<RolloutResult> {
  const { log, db } = context;
  const time = new Date().toISOString();
  const drafts: object[] = [];
  const say = (name: string, about: string, data: object) =>
    drafts.push({ name, source: '/team', id: `${id}/${about}`, time, data });
  const episodes: string[] = [];
  const partial: RolloutResult['partial'][number][] = [];
  for (const task of spec.tasks)
    say('task.defined', `task/${task.task_id}`, { query: 'what is one plus zero', ...task });
  for (const { group_id, task } of groupsOf(id, spec)) {
    const all = Array.from({ length: spec.samples }, (_, sample) => ({
      episode_id: episodeId(group_id, sample, 0),
      played: plays({ id, spec, task: task.task_id, sample }),
    }));
    for (const [sample, { episode_id, played }] of all.entries()) {
      const { reward, answer, roles = ['solver'], tokens = 7 } = played ?? {};
      say('episode.started', `${episode_id}/start`, {
        ...{ episode_id, task_id: task.task_id, tags: { ...spec.tags, rollout: id, sample } },
        ...(played === null ? {} : { group_id, group_size: spec.samples }),
        ...(spec.team === undefined ? {} : { team_id: spec.team.team_id }),
      });
      for (const role of roles) {
        const call_id = `${episode_id}-${role}`;
        say('agent.defined', call_id, { episode_id, agent_id: role, name: role, role });
        say('generation.requested', `${call_id}/ask`, {
          ...{ episode_id, call_id, agent_id: role, policy: 'solver', turn: 0 },
          input: [{ role: 'user', content: 'what is one plus zero' }],
        });
        const checkpoint_id = spec.weights?.solver?.checkpoint_id ?? spec.policies?.solver ?? answeredBy;
        say('generation.completed', `${call_id}/answer`, {
          ...{ episode_id, call_id, agent_id: role, policy: 'solver', turn: 0, prompt_token_ids: PROMPT },
          ...(checkpoint_id === undefined ? {} : { checkpoint_id }),
          usage: { input_tokens: 5, output_tokens: tokens - 5 },
          choices: [
            {
              ...{ index: 0, content: 'one', finish_reason: 'stop', token_ids: ANSWER },
              logprobs: [-2, -1.5],
            },
          ],
        });
      }
      if (reward !== undefined)
        say('feedback.recorded', `${episode_id}/reward`, {
          ...{ feedback_id: `${episode_id}/reward`, target: { kind: 'episode', id: episode_id, episode_id } },
          ...{ kind: 'reward', name: 'reward', value: reward },
        });
      say('episode.finished', `${episode_id}/end`, {
        ...{ episode_id, outcome: 'unknown' },
        ...(answer === undefined ? {} : { answer }),
      });
    }
    const done = all.filter(({ played }) => played !== null);
    if (done.length === spec.samples) episodes.push(...done.map(({ episode_id }) => episode_id));
    else
      partial.push({
        ...{ group_id, task_id: task.task_id, done: done.length, of: spec.samples },
        why: [{ code: 'exit', message: 'Exit code 4.', samples: spec.samples - done.length }],
      });
  }
  await appendOwn(log, drafts as unknown as Draft[], 'usage');
  await waitProjected(db, { log });
  const staleness = await stalenessOf(db, id, { episodes, bound: spec.max_staleness ?? null });
  return {
    ...{ rollout_id: id, episodes: episodes.filter((one) => !staleness.withheld.includes(one)), partial, staleness },
    groups: { complete: groupsOf(id, spec).length - partial.length, partial: partial.length },
    attempts: { done: episodes.length, failed: 0, late: 0, retried: 0 },
    ...{ tokens: null, usd: null, without_reward: 0, equal_rewards: 0, seconds: 1 },
  };
}
