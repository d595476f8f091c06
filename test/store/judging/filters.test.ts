import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { METHODS } from '../../../store/methods/find.ts';
import { event } from '../support/events.ts';
import { answer, grouped, type JudgedDatabase, judgedDatabase } from './support/judged.ts';
import {
  expectSaid,
  expectVaried,
  numberTold,
  randomStories,
  type Story,
  storiesIn,
  tell,
  type Wanted,
} from './support/stories.ts';

const onward = (story: Story) => story.steps.filter((step) => step.onward);
const words = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value));
const answerOf = (story: Story): string | null => {
  const last = onward(story).at(-1);
  return story.answer ?? (last ? answer<string | null>('boxed_answer', { text: last.text ?? '' }) : null);
};
const each = (stories: readonly Story[], of: (story: Story) => readonly [boolean | null, string | null]): Wanted =>
  Object.fromEntries(stories.map((story) => [story.episode_id, of(story)]));

describe('filters that the judge runs over what is stored', () => {
  let base: JudgedDatabase;
  let stories: Story[];
  beforeAll(async () => {
    base = await judgedDatabase();
    await base.load(randomStories(7));
    stories = await storiesIn(base);
    const early = ['consensus_filter', 'format_filter', 'correctness_filter'];
    await base.run(early);
    await base.run(
      METHODS.filter(
        ({ kind, judged, name }) => kind === 'filter' && judged !== undefined && !early.includes(name),
      ).map(({ name }) =>
        name === 'roc_select'
          ? { method: name, params: { n: 4, min_zero: 1, min_nonzero: 1 } }
          : name === 'diversity_select'
            ? { method: name, params: { n: 1 } }
            : { method: name },
      ),
    );
  });
  afterAll(() => base.close());

  it('are all of the catalogue', () => {
    for (const method of METHODS.filter(({ kind }) => kind === 'filter'))
      expect(method.judged?.rows, method.name).toBeTypeOf('function');
  });

  it('gives a verdict on each message of a critic', async () => {
    const wanted = Object.fromEntries(
      stories.flatMap((story): [string, readonly [boolean | null, string | null]][] => {
        const critics = story.steps.filter(({ role }) => role === 'critic');
        if (critics.length === 0) return [[story.episode_id, [null, 'no_critics']]];
        return critics.map(({ step_id, text }) => {
          const agrees = text === null ? null : answer<boolean>('critic_agrees', { text });
          return [
            `${story.episode_id} ${step_id}`,
            [agrees, agrees ? null : agrees === null ? 'no_text' : 'disagrees'],
          ];
        });
      }),
    );
    expectVaried(await expectSaid(base, 'verdicts', 'critic_agrees', wanted), true, false, null);
  });

  it('takes turns as rounds of critics, and the n-th message of each critic where turns are not all known', async () => {
    const wanted = each(stories, (story) => {
      const critics = onward(story).filter(({ role }) => role === 'critic');
      if (critics.length === 0) return [null, 'no_critics'];
      const numbered = critics.every(({ turn }) => turn !== null);
      const rounds: { agree: boolean; content: string }[][] = [];
      for (const [i, { turn, agent, text }] of critics.entries()) {
        const nth = critics.slice(0, i).filter((one) => one.agent === agent).length;
        const at = numbered ? turn! : nth;
        rounds[at] = [...(rounds[at] ?? []), { agree: (text ?? '').includes('[Agree]'), content: text ?? '' }];
      }
      const { pass } = answer<{ pass: boolean }>('consensus_filter', { rounds: rounds.filter(() => true) });
      return [pass, pass ? null : 'no_consensus'];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'consensus_filter', wanted), true, false, null);
  });

  it('asks for thoughts in all messages that an episode went on from, and for a box in the last', async () => {
    const wanted = each(stories, (story) => {
      const said = onward(story);
      if (said.length === 0) return [null, 'no_messages'];
      const messages = said.map(({ text }, i) => ({ text: text ?? '', needs_box: i === said.length - 1 }));
      const { pass } = answer<{ pass: boolean }>('format_filter', { messages });
      return [pass, pass ? null : 'bad_format'];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'format_filter', wanted), true, false, null);
  });

  it('compares the answer, or what the last message boxes, with the truth, and letters only where there are choices', async () => {
    const wanted = each(stories, (story) => {
      if (story.ground_truth === null) return [null, 'no_reference'];
      const said = answerOf(story);
      const pair = { answer: said, reference: words(story.ground_truth), choices: 'choices' in story.task_tags };
      const [right] = answer<boolean[]>('correctness_filter', { pairs: [pair] });
      return [right!, right ? null : said === null ? 'no_answer' : 'wrong'];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'correctness_filter', wanted), true, false, null);
    const from = await base.rows<{ n: string }>(
      `select distinct detail ->> 'answer_from' as n from traj.verdicts where method = 'correctness_filter' order by 1`,
    );
    expect(from.map(({ n }) => n)).toEqual(['episode', 'last_message', null]);
  });

  it('keeps for M500 what the three filters before it in the same judging kept, and says which one is missing', async () => {
    expect(await base.rows(`select distinct reason from traj.verdicts where method = 'm500_filter'`)).toEqual([
      { reason: 'no_consensus_verdict' },
    ]);
    await base.run(['consensus_filter', 'format_filter', 'correctness_filter', 'm500_filter']);
    const verdicts = await base.rows<{ episode_id: string; method: string; keep: boolean | null }>(
      'select episode_id, method, keep from traj.verdicts where step_id is null',
    );
    const keep = (id: string, method: string) =>
      verdicts.find((row) => row.episode_id === id && row.method === method)!.keep;
    const wanted = each(stories, ({ episode_id, task_tags, reference }) => {
      const [consensus, format, correct] = ['consensus_filter', 'format_filter', 'correctness_filter'].map((name) =>
        keep(episode_id, name),
      );
      if (consensus === null) return [null, 'unknown_consensus'];
      if (format === null) return [null, 'unknown_format'];
      if (correct === null) return [null, 'unknown_correct'];
      const answer_tokens =
        task_tags.answer_tokens ?? (reference?.usage as { output_tokens?: number } | undefined)?.output_tokens;
      if (answer_tokens === undefined) return [null, 'no_answer_tokens'];
      const { interdisciplinary } = task_tags;
      if (interdisciplinary === undefined) return [null, 'no_interdisciplinary_tag'];
      const trace = { id: 1, interdisciplinary, answer_tokens, consensus, format, correct };
      const kept = answer<number[]>('m500_filter', { traces: [trace] }).length === 1;
      return [kept, kept ? null : 'dropped'];
    });
    await expectSaid(base, 'verdicts', 'm500_filter', wanted);
  });

  it('takes from each category in turn over everything that is judged together', async () => {
    const known = stories.filter((s) => s.reward !== null && (s.task_tags.category ?? s.domain) !== null);
    await base.run([{ method: 'diversity_select', params: { n: 9 } }]);
    await base.run([{ method: 'difficulty_band' }, { method: 'diversity_select', params: { n: 3 } }]);
    const rows = await base.rows<{ episode_id: string; keep: boolean | null; reason: string; n: number }>(
      `select episode_id, keep, reason, (params ->> 'n')::integer as n from traj.verdicts where method = 'diversity_select'`,
    );
    const items = (from: readonly Story[]) =>
      from.map((s) => ({ id: s.episode_id, category: (s.task_tags.category ?? s.domain) as string, score: s.reward }));
    const taken = (n: number) =>
      rows
        .filter((row) => row.n === n && row.keep)
        .map((row) => row.episode_id)
        .sort();
    expect(taken(9)).toEqual(answer<string[]>('diversity_select', { items: items(known), n: 9 }).sort());
    const band = await base.rows<{ episode_id: string }>(
      `select episode_id from traj.verdicts where method = 'difficulty_band' and keep`,
    );
    const left = known.filter((s) => band.some((row) => row.episode_id === s.episode_id));
    expect(taken(3)).toEqual(answer<string[]>('diversity_select', { items: items(left), n: 3 }).sort());
    expect(new Set(rows.filter((row) => row.n === 9).map((row) => row.reason))).toEqual(
      new Set([null, 'not_taken', 'no_category', 'missing_reward']),
    );
    expect(rows.filter((row) => row.n === 3 && row.reason === 'dropped_before').length).toBeGreaterThan(0);
    expect(rows.filter((row) => row.n === 9)).toHaveLength(stories.length);
  });

  it('gives each cluster of like tasks the team that did best on all of them, and never counts a team that was not tried as 0', async () => {
    // Tasks 0, 1, 4 and 5 ask nearly the same; 2 and 6 do, and 3 is alone.
    const clusters = [['task 0', 'task 1', 'task 4', 'task 5'], ['task 2', 'task 6'], ['task 3']];
    const rated = stories.filter((s) => s.reward !== null && s.team_id !== null && s.task_id !== null);
    const mean = (task: string, team: string) => {
      const own = rated.filter((s) => s.task_id === task && s.team_id === team).map((s) => s.reward!);
      return own.length === 0 ? null : own.reduce((a, b) => a + b, 0) / own.length;
    };
    const wanted = each(stories, ({ task_id, team_id, reward }) => {
      if (task_id === null) return [null, 'no_task'];
      if (team_id === null) return [null, 'no_team'];
      if (reward === null) return [null, 'missing_reward'];
      const tasks = clusters.find((names) => names.includes(task_id))!;
      const teams = [...new Set(rated.map((s) => s.team_id!))]
        .sort()
        .filter((team) => tasks.every((task) => mean(task, team) !== null));
      if (teams.length === 0) return [null, 'no_team_on_all_queries'];
      const scores = tasks.map((task) => teams.map((team) => mean(task, team)!));
      const { c } = answer<{ c: { mas: number; kept: number[] } }>('inter_consistency_select', {
        scores,
        clusters: { c: tasks.map((_, i) => i) },
      });
      if (!teams.includes(team_id)) return [null, 'not_played_on_all_queries'];
      if (teams[c.mas] !== team_id) return [false, 'other_team'];
      return c.kept.includes(tasks.indexOf(task_id)) ? [true, null] : [false, 'below_min_score'];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'inter_consistency_select', wanted), true, false, null);
  });

  it('takes a team that was made from another where it runs and scores no worse on the task', async () => {
    const on = (task: string | null, team: string | null) =>
      stories.filter((s) => s.task_id === task && s.team_id === team);
    const mean = (own: readonly Story[]) => {
      const known = own.flatMap((s) => s.reward ?? []);
      return known.length === 0 ? null : known.reduce((a, b) => a + b, 0) / known.length;
    };
    const wanted = each(stories, ({ task_id, team_id, base_team }) => {
      if (task_id === null) return [null, 'no_task'];
      if (team_id === null) return [null, 'no_team'];
      if (base_team === null) return [null, 'not_a_refinement'];
      const base_score = mean(on(task_id, base_team));
      if (base_score === null) return [null, 'no_base_score'];
      const own = on(task_id, team_id);
      const refined_score = mean(own);
      const executable = own.some(
        (s) => s.outcome !== 'error' && (s.outcome === 'success' || s.outcome === 'failure' || s.reward !== null),
      );
      const taken = answer<boolean>('intra_consistency_accept', { base_score, refined_score, executable });
      return [
        taken,
        taken ? null : !executable ? 'not_executable' : refined_score === null ? 'never_scored' : 'worse_than_base',
      ];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'intra_consistency_accept', wanted), true, null);
  });

  it('selects the best run of a query by what a judge said of it, or by its reward where no judge spoke', async () => {
    const wanted: Record<string, readonly [boolean | null, string | null]> = {};
    for (const own of grouped(stories, (s) => s.group).values()) {
      const judged = own.some((s) => numberTold(s, 'correctness') !== null || numberTold(s, 'faithfulness') !== null);
      const trajectories = own.map((s) => {
        const [a, b] = [numberTold(s, 'correctness'), numberTold(s, 'faithfulness')];
        return { id: s.episode_id, query: 'q', reward: judged ? (a === null || b === null ? null : a + b) : s.reward };
      });
      const kept = answer<string[]>('mrag_select', { trajectories });
      for (const { id, reward } of trajectories)
        wanted[id] =
          reward === null
            ? [null, judged ? 'no_judge_score' : 'missing_reward']
            : kept.includes(id)
              ? [true, null]
              : [false, 'not_selected'];
    }
    expectVaried(await expectSaid(base, 'verdicts', 'mrag_select', wanted), true, false, null);
  });

  it('compares steps by environment, turn and agent', async () => {
    const rows = stories.flatMap((s) =>
      s.steps.map((step) => ({
        at: `${s.episode_id} ${step.step_id}`,
        ...step,
        reward: s.reward,
        env: s.env_id ?? s.group,
      })),
    );
    const known = rows.filter((row) => row.turn !== null && row.agent !== null && row.reward !== null);
    const group = known.map((row) => `${row.env}/${row.turn}/${row.agent}`);
    for (const params of [
      { mode: 'dapo', filter_ratio: 0 },
      { mode: 'std', filter_ratio: 0.5 },
    ]) {
      const kept = answer<number[]>('petting_group_filter', {
        group,
        reward: known.map((row) => row.reward),
        ...params,
      }).map((i) => known[i]!.at);
      await base.run([{ method: 'petting_group_filter', params }]);
      const found = await base.rows<{ at: string }>(
        `select episode_id || ' ' || step_id as at from traj.verdicts where method = 'petting_group_filter' and keep and params ->> 'mode' = '${params.mode}'`,
      );
      expect(found.map((row) => row.at).sort()).toEqual(kept.sort());
    }
    const reasons = await base.rows<{ reason: string }>(
      `select distinct reason from traj.verdicts where method = 'petting_group_filter' and keep is null order by 1`,
    );
    expect(reasons.map((row) => row.reason)).toEqual(['missing_reward', 'no_agent', 'no_steps', 'no_turn']);
  });

  it('resamples a group by what its tools and its answer tags cost each rollout', async () => {
    const wanted: Record<string, readonly [boolean | null, string | null]> = {};
    for (const own of grouped(stories, (s) => s.group).values()) {
      const rows = own.map((s) => {
        const [tool, format] = [toolPenalty(s), formatPenalty(s)];
        const reason =
          s.reward === null
            ? 'missing_reward'
            : typeof tool === 'string'
              ? tool
              : typeof format === 'string'
                ? format
                : null;
        return { s, reason, penalty: reason === null ? (tool as number) + (format as number) : 0 };
      });
      const known = rows.filter((row) => row.reason === null);
      const kept = answer<number[]>('roc_select', {
        rewards: known.map(({ s }) => s.reward),
        penalties: known.map((row) => row.penalty),
        n: 4,
        min_zero: 1,
        min_nonzero: 1,
      }).map((i) => known[i]!);
      for (const row of rows)
        wanted[row.s.episode_id] =
          row.reason !== null ? [null, row.reason] : kept.includes(row) ? [true, null] : [false, 'dropped'];
    }
    expectVaried(await expectSaid(base, 'verdicts', 'roc_select', wanted), true, null);
  });

  it('accepts a blueprint by its checks and the votes of its committee', async () => {
    const wanted = each(stories, (story) => {
      const [format, execution, policy] = ['format_check', 'execution_check', 'policy_check'].map((name) =>
        numberTold(story, name),
      );
      const votes = story.told.filter(({ name }) => name === 'vote').map(({ value }) => value);
      const say = (input: object): readonly [boolean, string | null] => {
        const { accept, stage } = answer<{ accept: boolean; stage: string }>('apigen_mt_blueprint', input);
        return [accept, accept ? null : stage];
      };
      if (format === null) return [null, 'no_format_check'];
      if (format === 0) return say({ format_ok: false, execution_ok: false, policy_ok: false, votes });
      if (execution === null) return [null, 'no_execution_check'];
      if (execution === 0) return say({ format_ok: true, execution_ok: false, policy_ok: false, votes });
      if (policy === null) return [null, 'no_policy_check'];
      if (policy === 1 && votes.length === 0) return [null, 'no_votes'];
      return say({ format_ok: true, execution_ok: true, policy_ok: policy === 1, votes });
    });
    expectVaried(await expectSaid(base, 'verdicts', 'apigen_mt_blueprint', wanted), true, false, null);
  });

  it('keeps a run that reaches the true state and says what it must', async () => {
    const wanted = each(stories, ({ reference, observed, steps, answer: said }) => {
      const final = observed.findLast(({ state }) => state !== null);
      if (final === undefined) return [null, 'no_final_state'];
      if (reference?.state === undefined) return [null, 'no_true_state'];
      const shown = observed.filter(({ kind }) => kind === 'output').map(({ content }) => content);
      const kept = answer<boolean>('apigen_mt_trajectory', {
        final_state: final.state,
        gold_state: reference.state,
        gold_outputs: reference.outputs,
        agent_outputs: [...shown, ...steps.filter((s) => s.onward).map((s) => s.text), said].filter(
          (text) => text !== null,
        ),
      });
      return [kept, kept ? null : 'other_state_or_outputs'];
    });
    expectVaried(await expectSaid(base, 'verdicts', 'apigen_mt_trajectory', wanted), true, false, null);
  });

  it('collects the steps of successful runs, by role', async () => {
    const wanted: Record<string, readonly [boolean | null, string | null]> = {};
    for (const story of stories) {
      const success = story.outcome === 'unknown' ? null : story.outcome === 'success';
      const own = onward(story).filter(({ role }) => role !== null);
      const sets = answer<Record<string, string[]>>('rolewise_sft_select', {
        trajectories:
          success === null ? [] : [{ success, steps: own.map(({ role, step_id }) => ({ role, id: step_id })) }],
      });
      const kept = Object.values(sets).flat();
      const reason = success === null ? 'outcome_unknown' : success ? null : 'not_a_success';
      for (const step of story.steps)
        wanted[`${story.episode_id} ${step.step_id}`] = kept.includes(step.step_id)
          ? [true, null]
          : success === null
            ? [null, reason]
            : !step.onward
              ? [false, 'not_chosen']
              : step.role === null
                ? [null, 'no_role']
                : [false, reason];
      const empty = story.steps.length === 0;
      wanted[story.episode_id] =
        kept.length > 0
          ? [true, null]
          : [empty || success === null ? null : false, reason ?? (empty ? 'no_steps' : 'no_collected_step')];
    }
    expectVaried(await expectSaid(base, 'verdicts', 'rolewise_sft_select', wanted), true, false, null);
  });

  it('fills libraries from successes, and from failures through the run that was made again', async () => {
    const own = await judgedDatabase();
    try {
      const run = (
        id: string,
        outcome: 'success' | 'failure' | 'unknown',
        reward: number | null,
        tags: Record<string, unknown> = {},
      ) => [
        event('episode.started', { episode_id: id, task_id: `task of ${id}`, tags }),
        ...['physicist', null].map((agent_id, seq) =>
          event('generation.completed', {
            episode_id: id,
            call_id: `${seq}`,
            seq,
            agent_id,
            choices: [{ index: 0, content: 'x' }],
          }),
        ),
        event('episode.finished', { episode_id: id, outcome }),
        ...(reward === null ? [] : [tell(id, { kind: 'reward', name: 'reward', value: reward })]),
      ];
      const again = (id: string) => ({ regenerated_from: id });
      await own.load(
        run('good', 'success', 1),
        run('bad', 'failure', 0),
        run('bad again 1', 'failure', 1, again('bad')),
        run('bad again 2', 'success', null, again('bad')),
        run('bad again 3', 'success', null, again('bad')),
        run('bad again 4', 'unknown', null, again('bad')),
        run('hopeless', 'failure', 0),
        run('lost', 'success', null, again('nobody')),
        run('unrated', 'success', null),
        run('good again', 'success', null, again('good')),
      );
      await own.run(['sirius_library']);
      const input = (id: string, reward: number) => ({ id, reward, steps: [{ agent: 'physicist', id }] });
      const trajectories = [
        { ...input('bad', 0), regenerated: { correct: true, steps: [{ agent: 'physicist', id: 'bad again 2' }] } },
        input('good', 1),
        input('hopeless', 0),
      ];
      const { library, augmented } = answer<{ library: Record<string, string[]>; augmented: string[] }>(
        'sirius_library',
        { trajectories },
      );
      const rows = await own.rows<{
        episode_id: string;
        step_id: string | null;
        keep: boolean | null;
        reason: string | null;
      }>(
        `select episode_id, step_id, keep, reason from traj.verdicts where method = 'sirius_library' order by 1, 2 nulls first`,
      );
      expect(rows.filter((row) => row.step_id !== null && row.keep).map((row) => row.episode_id)).toEqual(
        library.physicist!.sort(),
      );
      expect(
        rows.filter((row) => row.reason === 'repaired' && row.step_id === null).map((row) => row.episode_id),
      ).toEqual(augmented);
      expect(
        rows.filter((row) => row.step_id === null).map(({ episode_id, keep, reason }) => [episode_id, keep, reason]),
      ).toEqual([
        ['bad', false, 'repaired'],
        ['bad again 1', false, 'still_wrong'],
        ['bad again 2', true, null],
        ['bad again 3', false, 'another_regeneration'],
        ['bad again 4', null, 'outcome_unknown'],
        ['good', true, null],
        ['good again', false, 'base_not_failed'],
        ['hopeless', false, 'not_a_success'],
        ['lost', null, 'no_base'],
        ['unrated', null, 'missing_reward'],
      ]);
      expect(rows.filter((row) => row.episode_id === 'good')).toEqual([
        { episode_id: 'good', step_id: null, keep: true, reason: null },
        { episode_id: 'good', step_id: '0/0', keep: true, reason: null },
        { episode_id: 'good', step_id: '1/0', keep: null, reason: 'no_agent' },
      ]);
    } finally {
      await own.close();
    }
  });

  it('says the same when it is run again, and after a rebuild', async () => {
    const names = METHODS.filter(({ kind, judged }) => kind === 'filter' && judged !== undefined).map(
      ({ name }) => name,
    );
    await base.run(names);
    const before = (await base.checksum()).tables.verdicts;
    await base.run(names);
    expect((await base.checksum()).tables.verdicts).toEqual(before);
    await base.rebuild();
    expect((await base.checksum()).tables.verdicts).toEqual(before);
  }, 60_000);
});

function toolPenalty({ tools }: Story): number | string {
  const said = tools.flatMap(({ status, output, error }) =>
    status === null
      ? []
      : [output !== null ? words(output) : error !== null ? words(error) : status === 'ok' ? '' : status],
  );
  return tools.length > 0 && said.length === 0
    ? 'no_tool_responses'
    : answer<number>('roc_tool_penalty', { tool_responses: said });
}

function formatPenalty(story: Story): number | string {
  const said = onward(story);
  if (said.length === 0) return 'no_steps';
  const text = said.map((step) => step.text ?? '').join('\n');
  return answer<number>('roc_format_penalty', {
    open_tags: text.split('<answer>').length - 1,
    close_tags: text.split('</answer>').length - 1,
    closed_pairs: [...text.matchAll(/<answer>(?:.|\n)*?<\/answer>/g)].length,
    turns: said.length,
  });
}
