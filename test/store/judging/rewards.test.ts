import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { anExecution } from '../support/events.ts';
import { played, randomEpisodes } from './support/episodes.ts';
import {
  answer,
  type Expected,
  grouped,
  type JudgedDatabase,
  judgedDatabase,
  place,
  type SeenEpisode,
  type SeenStep,
} from './support/judged.ts';

describe('rewards that the judge computes from what is stored', () => {
  let base: JudgedDatabase;
  beforeEach(async () => {
    base = await judgedDatabase();
  });
  afterEach(() => base.close());

  /** What one episode at a time should get: a row for each step, or one reason for all of them. */
  const expected = (
    episodes: readonly SeenEpisode[],
    of: (episode: SeenEpisode) => string | ((step: SeenStep) => readonly [number | null, string | null]),
  ): Expected =>
    Object.fromEntries(
      episodes.flatMap((episode) => {
        if (episode.steps.length === 0) return [];
        const say = of(episode);
        return episode.steps.map((step) => [place(step), typeof say === 'string' ? [null, say] : say(step)] as const);
      }),
    );
  const withoutSteps = (method: string) =>
    base.rows<{ episode_id: string; reason: string }>(
      `select s.episode_id, s.reason from traj.scores s where s.method = '${method}' and s.value is null order by 1`,
    );

  it('mixes the team’s reward with that of the step or, where it has none, of its agent', async () => {
    await base.load(
      randomEpisodes(1, {
        says: { reward: (random) => random.below(100) / 7 },
        extra: (random) => (random.chance(0.5) ? { agents: { solver: random.below(9) / 3 } } : {}),
      }),
    );
    await base.run(['petting_mixed_reward']);
    const episodes = await base.seen();
    await base.expectRows(
      'rewards',
      'petting_mixed_reward',
      expected(episodes, ({ reward, agents, steps }) => {
        if (reward === null) return 'missing_reward';
        const local = steps.map((step) => (step.says.reward ?? agents[step.agent!] ?? null) as number | null);
        const values = answer<(number | null)[]>('petting_mixed_reward', { team: reward, local });
        return (step) => {
          const value = values[steps.indexOf(step)]!;
          return [value, value === null ? 'no_local_reward' : null];
        };
      }),
    );
    expect(await withoutSteps('petting_mixed_reward')).toEqual(
      episodes.filter((e) => e.steps.length === 0).map((e) => ({ episode_id: e.episode_id, reason: 'no_steps' })),
    );
  });

  it('spreads a final reward over the turns, shapes a chain, and charges length', async () => {
    await base.load(randomEpisodes(2, { says: { reward: (random) => random.below(100) / 7 } }));
    await base.run([
      { method: 'petting_turn_reward', params: { mode: 'discount' } },
      'marti_shaping',
      { method: 'dapo_overlong', params: { max_len: 5000, buffer: 4000 } },
    ]);
    const episodes = await base.seen();
    await base.expectRows(
      'rewards',
      'petting_turn_reward',
      expected(episodes, ({ reward, steps }) => {
        if (reward === null) return 'missing_reward';
        const counted = steps.filter((step) => step.turn !== null);
        const turns = counted.map((step) => step.turn);
        const values = answer<number[]>('petting_turn_reward', { final: reward, turns, mode: 'discount' });
        return (step) => (step.turn === null ? [null, 'no_turn'] : [values[counted.indexOf(step)]!, null]);
      }),
    );
    await base.expectRows(
      'rewards',
      'marti_shaping',
      expected(episodes, ({ steps }) => {
        const chain = steps.filter((step) => step.onward);
        const rewards = chain.map((step) => step.says.reward);
        if (rewards.includes(undefined)) return 'missing_reward';
        const values = answer<number[]>('marti_shaping', { rewards });
        return (step) => (step.onward ? [values[chain.indexOf(step)]!, null] : [null, 'not_chosen']);
      }),
    );
    await base.expectRows(
      'rewards',
      'dapo_overlong',
      expected(
        episodes,
        () =>
          ({ length }) =>
            length === null
              ? [null, 'no_length']
              : [answer<number>('dapo_overlong', { length, max_len: 5000, buffer: 4000 }), null],
      ),
    );
  });

  it('gives UnityMAS-O its three shapes: mathematics and terminal by format, code by pass rate, search by answer', async () => {
    await base.load(
      randomEpisodes(3, {
        episodes: 60,
        roles: ['planner', 'coder', 'reflection', 'other', 'search', 'answer'],
        says: { format: (r) => r.below(3) / 2, pass_rate: (r) => r.below(5) / 4, f1: (r) => r.below(8) / 7 },
      }),
    );
    await base.run([
      'unitymas_math_rewards',
      'unitymas_terminal_rewards',
      'unitymas_code_rewards',
      'unitymas_search_rewards',
    ]);
    const episodes = await base.seen();
    for (const [method, field] of [
      ['unitymas_math_rewards', 'accuracy'],
      ['unitymas_terminal_rewards', 'outcome'],
    ] as const) {
      await base.expectRows(
        'rewards',
        method,
        expected(episodes, ({ reward, steps }) => {
          const chain = steps.filter((step) => step.onward);
          const format = chain.map((step) => step.says.format ?? null);
          const values = answer<(number | null)[]>(method, { [field]: reward, format });
          return (step) => {
            if (!step.onward) return [null, 'not_chosen'];
            const value = values[chain.indexOf(step)]!;
            return [value, value !== null ? null : reward === null ? 'missing_reward' : 'no_format_score'];
          };
        }),
      );
    }
    await base.expectRows(
      'rewards',
      'unitymas_code_rewards',
      expected(episodes, ({ steps }) => {
        const placed = steps.filter((step) => step.onward && step.turn !== null);
        const writes = (step: SeenStep) => step.role === 'planner' || step.role === 'coder';
        const turns = [...new Set(placed.filter(writes).map((step) => step.turn!))].sort((a, b) => a - b);
        if (turns.length === 0) return 'no_such_roles';
        const rates = turns.map(
          (turn) => placed.filter((s) => s.turn === turn && 'pass_rate' in s.says).at(-1)?.says.pass_rate,
        );
        if (rates.includes(undefined)) return 'no_pass_rate';
        const { planner_coder, reflection } = answer<{ planner_coder: number[]; reflection: number[] }>(
          'unitymas_code_rewards',
          { pass_rate: rates, reflections: turns.length },
        );
        return (step) => {
          if (step.turn === null) return [null, 'no_turn'];
          if (!step.onward) return [null, 'not_chosen'];
          if (!writes(step) && step.role !== 'reflection') return [null, 'other_role'];
          const value = (writes(step) ? planner_coder : reflection)[turns.indexOf(step.turn)];
          return value === undefined ? [null, 'no_pass_rate'] : [value, null];
        };
      }),
    );
    type Search = { plan: number; answer_0: number; turns: { search_summary_update: number; answer: number }[] };
    await base.expectRows(
      'rewards',
      'unitymas_search_rewards',
      expected(episodes, ({ steps }) => {
        const onward = steps.filter((step) => step.onward);
        const plan = onward.find((step) => step.role === 'planner');
        const answers = onward.filter((step) => step.role === 'answer');
        if (!plan || answers.length === 0) return 'no_such_roles';
        if ([plan, ...answers].some((step) => step.says.f1 === undefined)) return 'no_f1';
        const out = answer<Search>('unitymas_search_rewards', {
          plan_f1: plan.says.f1,
          answer_f1: answers.map((step) => step.says.f1),
        });
        return (step) => {
          if (!step.onward) return [null, 'not_chosen'];
          if (step.role === 'planner') return [out.plan, null];
          const i = answers.indexOf(step);
          if (i >= 0) return [i === 0 ? out.answer_0 : out.turns[i - 1]!.answer, null];
          if (step.role !== 'search') return [null, 'other_role'];
          const done = answers.filter((one) => steps.indexOf(one) < steps.indexOf(step)).length;
          if (done === 0) return [null, 'before_the_first_answer'];
          return done === answers.length
            ? [null, 'ends_the_search']
            : [out.turns[done - 1]!.search_summary_update, null];
        };
      }),
    );
  });

  it('knows the roles of MMOA-RAG, MarsRL and ReMA, and says which part is missing', async () => {
    await base.load(
      randomEpisodes(4, {
        episodes: 60,
        calls: 9,
        roles: ['rewriter', 'selector', 'generator', 'solver', 'verifier', 'corrector', 'meta-thinking', 'reasoning'],
        says: { correct: (r) => r.chance(0.5), flags_error: (r) => r.chance(0.5) },
        extra: (r) => ({
          ...(r.chance(0.8) ? { says: { f1: r.below(7) / 6 } } : {}),
          ...(r.chance(0.8) ? { documents: Array.from({ length: r.below(4) }, String) } : {}),
          ...(r.chance(0.8) ? { budgets: { max_turns: 1 + r.below(2) } } : {}),
        }),
      }),
      played('rag', {
        says: { f1: 0.8 },
        documents: ['a', 'b', 'c'],
        calls: [
          { role: 'rewriter', choices: [{ content: 'who\nwhen\n\nwhere\nwhy\nhow' }] },
          { role: 'selector', choices: [{ content: 'Document0,Document2\n' }] },
          { role: 'generator', choices: [{ content: 'paris' }] },
        ],
      }),
    );
    await base.run(['mmoa_rewards', 'marsrl_rewards', { method: 'rema_reward', params: { mask_unfinished: true } }]);
    const episodes = await base.seen();
    const last = ({ steps }: SeenEpisode, role: string) => steps.filter((s) => s.onward && s.role === role).at(-1);
    const byRole =
      (earned: Record<string, number>) =>
      (step: SeenStep): readonly [number | null, string | null] => {
        if (!(step.role! in earned)) return [null, 'other_role'];
        return step.onward ? [earned[step.role!]!, null] : [null, 'not_chosen'];
      };
    const documents = new Map(
      (
        await base.rows<{ episode_id: string; n: number }>(
          `select episode_id, json_array_length(content) as n from facts.observations where kind = 'documents'`,
        )
      ).map((row) => [row.episode_id, row.n]),
    );
    await base.expectRows(
      'rewards',
      'mmoa_rewards',
      expected(episodes, (episode) => {
        if (episode.says.f1 === undefined) return 'no_f1';
        for (const role of ['rewriter', 'selector', 'generator']) if (!last(episode, role)) return `no_${role}`;
        const k = documents.get(episode.episode_id);
        if (k === undefined) return 'no_documents';
        return byRole(
          answer('mmoa_rewards', {
            f1: episode.says.f1,
            subquestions: last(episode, 'rewriter')!.text!.split(/\n+/),
            selector: last(episode, 'selector')!.text!.trim(),
            k,
            answer: last(episode, 'generator')!.text,
          }),
        );
      }),
    );
    expect(
      (
        await base.rows<{ value: number }>(
          `select value from traj.rewards where method = 'mmoa_rewards' and episode_id = 'rag' order by step_id`,
        )
      ).map((r) => r.value),
    ).toEqual([0.8 - 0.5, 0.8, 0.8]);
    await base.expectRows(
      'rewards',
      'marsrl_rewards',
      expected(episodes, ({ steps }) => {
        let solved = false;
        const taken = steps.filter((step) => {
          if (!step.onward) return false;
          if (step.role === 'verifier') return solved && step.says.flags_error !== undefined;
          const solves = step.role === 'solver' || step.role === 'corrector';
          solved ||= solves;
          return solves;
        });
        const values = answer<(number | null)[]>('marsrl_rewards', {
          steps: taken.map(({ role, says }) =>
            role === 'verifier'
              ? { role, flags_error: truth(says.flags_error) }
              : { role, correct: truth(says.correct) },
          ),
        });
        return (step) => {
          const i = taken.indexOf(step);
          if (i >= 0) return [values[i]!, values[i] === null ? 'not_graded' : null];
          if (!step.onward) return [null, 'not_chosen'];
          if (step.role !== 'verifier') return [null, 'other_role'];
          const first = taken[0];
          const early = first === undefined || steps.indexOf(first) > steps.indexOf(step);
          return [null, early ? 'nothing_to_verify' : 'no_flag'];
        };
      }),
    );
    const budgets = new Map(
      (
        await base.rows<{ episode_id: string; n: number }>(
          `select episode_id, (budgets ->> 'max_turns')::integer as n from facts.episodes where budgets is not null`,
        )
      ).map((row) => [row.episode_id, row.n]),
    );
    await base.expectRows(
      'rewards',
      'rema_reward',
      expected(episodes, (episode) => {
        if (episode.reward === null) return 'missing_reward';
        const max_turns = budgets.get(episode.episode_id);
        if (max_turns === undefined) return 'no_max_turns';
        const of = (role: string) => episode.steps.filter((s) => s.onward && s.role === role);
        const both = [...of('meta-thinking'), ...of('reasoning')];
        if (!last(episode, 'meta-thinking') || !last(episode, 'reasoning')) return 'no_such_roles';
        if (both.some((step) => step.finish === null)) return 'no_finish_reason';
        const ended = (role: string) => of(role).every((step) => step.finish === 'stop');
        return byRole(
          answer('rema_reward', {
            score: episode.reward,
            finished: { 'meta-thinking': ended('meta-thinking'), reasoning: ended('reasoning') },
            max_turns,
            boxed: false,
            mask_unfinished: true,
          }),
        );
      }),
    );
  });

  it('shapes a tree of steps, and names what hangs from nothing', async () => {
    await base.load(
      randomEpisodes(5, { tree: true, says: { reward: (r) => r.below(100) / 7 } }),
      played('round', {
        calls: [
          { choices: [{ says: { reward: 1 }, parent: 'c1/0' }] },
          { choices: [{ says: { reward: 1 }, parent: 'c0/0' }] },
          { choices: [{ says: { reward: 1 }, parent: 'c1/0' }] },
          { choices: [{ says: { reward: 1 }, parent: 'gone/0' }] },
          { choices: [{ says: { reward: 0.5 } }] },
        ],
      }),
    );
    await base.run(['mars2_tree_shaping']);
    const reasons = await base.rows<{ value: number | null; reason: string | null }>(
      `select value, reason from traj.rewards where episode_id = 'round' order by step_id`,
    );
    expect(reasons.map((row) => row.reason)).toEqual(['cycle', 'cycle', 'cycle', 'unknown_parent', null]);
    expect(reasons.at(-1)!.value).toBe(0.5);
    await base.expectRows(
      'rewards',
      'mars2_tree_shaping',
      expected(await base.seen(), ({ steps }) => {
        if (steps.every((step) => step.parent === null)) return 'no_tree';
        const fate = fates(steps);
        const nodes = steps.filter((step) => fate.get(step) === 'hangs');
        const values = answer<(number | null)[]>('mars2_tree_shaping', {
          rewards: nodes.map((step) => step.says.reward ?? null),
          parent: nodes.map((step) => nodes.findIndex((other) => other.step_id === step.parent)),
        });
        return (step) => {
          const i = nodes.indexOf(step);
          if (i < 0) return [null, fate.get(step)!];
          return [values[i]!, values[i] === null ? 'missing_reward' : null];
        };
      }),
    );
  });

  it('ranks the agents of a group by CoMAM, and gives designs and executions of MetaAgent-X what they earned', async () => {
    await base.load(
      randomEpisodes(6, {
        launches: true,
        roles: ['extract'],
        says: { reward: (r) => r.below(100) / 7 },
        extra: (r) => (r.chance(0.5) ? { agents: { extract: r.below(9), 'extract 2': r.below(9) } } : {}),
      }),
    );
    await base.run(['comam_rewards', 'metaagentx_rewards']);
    const episodes = await base.seen();
    type Comam = { reward: Record<string, number[]> };
    const comam: Expected = {};
    const metaagentx: Expected = {};
    for (const members of grouped(episodes, (e) => e.group).values()) {
      const agents = [...new Set(members.flatMap((e) => e.steps.map((s) => s.agent!)))];
      const own = (e: SeenEpisode, agent: string): number | null => {
        const said = e.steps
          .filter((s) => s.agent === agent && s.says.reward !== undefined)
          .map((s) => s.says.reward as number);
        return e.agents[agent] ?? (said.length === 0 ? null : said.reduce((a, b) => a + b, 0) / said.length);
      };
      const complete = members.filter((e) => e.reward !== null && agents.every((agent) => own(e, agent) !== null));
      const out = answer<Comam>('comam_rewards', {
        global: complete.map((e) => e.reward),
        local: Object.fromEntries(agents.map((agent) => [agent, complete.map((e) => own(e, agent))])),
      });
      const launched = (e: SeenEpisode) => members.filter((other) => other.parent === e.episode_id);
      const designs = members.filter((e) => e.parent === null && launched(e).length > 0);
      const { designer } = answer<{ designer: (number | null)[] }>('metaagentx_rewards', {
        exec_rewards: designs.map((e) => launched(e).map((one) => one.reward)),
      });
      for (const e of members)
        for (const step of e.steps) {
          comam[place(step)] = complete.includes(e)
            ? [out.reward[step.agent!]![complete.indexOf(e)]!, null]
            : [null, e.reward === null ? 'missing_reward' : 'no_local_reward'];
          const parent = designs.some((design) => design.episode_id === e.parent);
          const value = parent ? e.reward : designs.includes(e) ? designer[designs.indexOf(e)]! : undefined;
          metaagentx[place(step)] =
            value === undefined
              ? [null, e.parent === null ? 'no_executions' : 'not_an_execution']
              : [value, value === null ? 'missing_reward' : null];
        }
    }
    await base.expectRows('rewards', 'comam_rewards', comam);
    await base.expectRows('rewards', 'metaagentx_rewards', metaagentx);
    expect(Object.values(comam).filter(([value]) => value !== null).length).toBeGreaterThan(5);
    expect(Object.values(metaagentx).filter(([value]) => value !== null).length).toBeGreaterThan(5);
  });

  it('balances the rewards that another method computed, or the recorded ones, within what an agent said in a group', async () => {
    await base.load(randomEpisodes(7, { rewards: [1, -1, 0.5, null] }), anExecution('x'), anExecution('y'));
    const length = { min_len: 0, max_len: 9000 };
    await base.run(['cure_balance', { method: 'cure_length_regularize', params: length }]);
    const episodes = await base.seen();
    for (const method of ['cure_balance', 'cure_length_regularize']) {
      const wanted: Expected = {};
      const long = method === 'cure_length_regularize';
      const steps = episodes.flatMap((e) => e.steps.map((step) => ({ step, reward: e.reward, group: e.group })));
      for (const set of grouped(steps, (one) => `${one.group}|${one.step.agent}`).values()) {
        const known = set.filter((one) => one.reward !== null && (!long || one.step.length !== null));
        const x = known.map((one) => one.reward);
        const values = answer<number[] | null>(
          method,
          long ? { reward: x, length: known.map((one) => one.step.length), ...length } : { x },
        );
        for (const one of set)
          wanted[place(one.step)] = known.includes(one)
            ? [values?.[known.indexOf(one)] ?? null, values === null ? 'one_sided' : null]
            : [null, one.reward === null ? 'missing_reward' : 'no_length'];
      }
      await base.expectRows('rewards', method, wanted);
    }
    await base.run(['cure_code_reward', { method: 'cure_balance', reads: 'cure_code_reward' }]);
    const read = await base.rows<{ step_id: string; value: number }>(
      `select step_id, value from traj.rewards where method = 'cure_balance' and params ->> 'reads' is not null order by episode_id, step_id`,
    );
    const raw = await base.rows<{ value: number }>(
      `select value from traj.rewards where method = 'cure_code_reward' and step_id is not null order by episode_id, step_id`,
    );
    expect(read.map((row) => row.step_id)).toEqual(['x-coder/0', 'x-coder/1', 'y-coder/0', 'y-coder/1']);
    expect(read.map((row) => row.value)).toEqual(answer('cure_balance', { x: raw.map((row) => row.value) }));
  });

  it('reads the essays’ rewards from an execution matrix, and has none without lengths', async () => {
    await base.load(
      anExecution('x'),
      played('bare', { calls: [{ choices: [{}] }] }),
      anExecution('z').filter((e) => e.name !== 'generation.completed'),
    );
    await base.run(['essay_rewards']);
    const found = await base.rows<{ step_id: string; value: number }>(
      `select step_id, value from traj.rewards where method = 'essay_rewards' and episode_id = 'x' order by 1`,
    );
    const lengths = await base.rows<{ n: number }>(
      `select cardinality(token_ids) as n from traj.steps where call_id = 'x-verifier' order by step_id`,
    );
    const out = answer<{ R_C: number[]; R_V: number[] }>('essay_rewards', {
      gt_pass: [[1], [0]],
      generated_pass: [
        [1, 0],
        [0, 1],
      ],
      length: lengths.map((row) => row.n),
    });
    expect(found.map((row) => row.step_id)).toEqual(['x-coder/0', 'x-coder/1', 'x-verifier/0', 'x-verifier/1']);
    expect(found.map((row) => row.value)).toEqual([...out.R_C, ...out.R_V]);
    expect(await withoutSteps('essay_rewards')).toEqual([
      { episode_id: 'bare', reason: 'no_execution_matrix' },
      { episode_id: 'z', reason: 'no_token_ids' },
    ]);
  });
});

/** A truth value is recorded as 1 or 0. */
const truth = (said: unknown): boolean | null => (said === undefined ? null : Boolean(said));

/** Whether each step hangs from a root, or why not, by walking up. */
function fates(steps: readonly SeenStep[]): Map<SeenStep, 'hangs' | 'cycle' | 'unknown_parent'> {
  return new Map(
    steps.map((step) => {
      let at: SeenStep | undefined = step;
      for (let climbed = 0; climbed <= steps.length; climbed++) {
        if (at === undefined) return [step, 'unknown_parent'];
        if (at.parent === null) return [step, 'hangs'];
        at = steps.find((other) => other.step_id === at!.parent);
      }
      return [step, 'cycle'];
    }),
  );
}
