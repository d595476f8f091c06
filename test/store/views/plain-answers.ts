/** What the queries of docs/analysis.md answer about runs, computed from the runs themselves: no SQL, and nothing of the store. */

/** What a team did once. */
export type Run = {
  readonly episode: string;
  readonly task: string;
  /** How many runs of its task came before it. */
  readonly attempt: number;
  /** Who made each call, in order, what was said there, and how many tokens that took. */
  readonly agents: readonly string[];
  readonly texts: readonly string[];
  readonly tokens: number | null;
  /** Null: nobody said how it went. */
  readonly reward: number | null;
  readonly answer: string;
  readonly budget: number | null;
  /** The call at which somebody saw a mistake. */
  readonly mistake: number | null;
  /** Of calls: a reward of their own, and whether they are right. */
  readonly tidy: Readonly<Record<number, number>>;
  readonly right: Readonly<Record<number, boolean>>;
  /** What is called, with what, and how it ended; null where no result came. */
  readonly tools: readonly (readonly [name: string, argument: number, status: 'ok' | 'error' | null])[];
};
type Rows = readonly Readonly<Record<string, unknown>>[];

const sum = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0);
const mean = (values: readonly number[]): number | null => (values.length === 0 ? null : sum(values) / values.length);
const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);
const median = (values: readonly number[]): number | null => {
  const [low, high] = [(values.length - 1) >> 1, values.length >> 1].map((i) => sorted(values)[i]!);
  return values.length === 0 ? null : (low! + high!) / 2;
};
/** Of a sample. */
const deviation = (values: readonly number[]): number =>
  Math.sqrt(sum(values.map((one) => (one - mean(values)!) ** 2)) / (values.length - 1));
const correlation = (a: readonly number[], b: readonly number[]): number | null => {
  const [x, y] = [a, b].map((values) => values.map((one) => one - mean(values)!)) as [number[], number[]];
  const size = Math.sqrt(sum(x.map((one) => one * one)) * sum(y.map((one) => one * one)));
  return size < 1e-12 ? null : sum(x.map((one, i) => one * y[i]!)) / size;
};
/** The place of each value among all, equal ones in the middle of theirs. */
const places = (values: readonly number[]): number[] =>
  values.map((one) => {
    const [less, equal] = [
      values.filter((other) => other < one - 1e-9),
      values.filter((other) => Math.abs(other - one) <= 1e-9),
    ];
    return less.length + (equal.length + 1) / 2;
  });
const choose = (n: number, k: number): number => (k === 0 ? 1 : (choose(n, k - 1) * (n - k + 1)) / k);
function by<T>(values: readonly T[], of: (value: T) => unknown): [string, T[]][] {
  const found = new Map<string, T[]>();
  for (const one of values) {
    const key = String(of(one));
    found.set(key, [...(found.get(key) ?? []), one]);
  }
  return [...found];
}

const solvedOf = ({ reward }: Run): boolean | null => (reward === null ? null : reward >= 1);
const knownIn = (runs: readonly Run[]): Run[] => runs.filter((one) => one.reward !== null);
const rateOf = (runs: readonly Run[]): number | null => mean(knownIn(runs).map((one) => Number(solvedOf(one))));
const has = (run: Run, agent: string): boolean => run.agents.includes(agent);

type Credit = { readonly run: Run; readonly step: number; readonly values: Readonly<Record<string, number | null>> };
const ESTIMATORS = {
  grpo: 'grpo_advantage',
  dr_grpo: 'grpo_advantage',
  drmas: 'drmas_advantage',
  rloo: 'rloo_advantage',
  magrpo: 'magrpo_returns',
};
/** By what each estimator is defined as. A run without a reward is compared with none. */
function creditsOf(group: readonly Run[]): Credit[] {
  const rewards = knownIn(group).map((one) => one.reward!);
  const steps = group.flatMap((run) => run.agents.map((agent, step) => ({ run, step, agent })));
  const scaled = (reward: number, of: readonly number[]) => (reward - mean(of)!) / (deviation(of) + 1e-6);
  return steps.map(({ run, step, agent }) => {
    const { reward } = run;
    const names = Object.keys(ESTIMATORS);
    if (reward === null) return { run, step, values: Object.fromEntries(names.map((name) => [name, null])) };
    const ofAgent = steps.flatMap((one) => (one.agent === agent && one.run.reward !== null ? [one.run.reward] : []));
    const alone = reward - mean(rewards)!;
    const rloo = (alone * rewards.length) / (rewards.length - 1);
    return {
      run,
      step,
      values: { grpo: scaled(reward, rewards), dr_grpo: alone, drmas: scaled(reward, ofAgent), rloo, magrpo: alone },
    };
  });
}

/**
 * The answers by the headings of the page, one for each query that follows.
 * @param order of the estimators, by which the first of two is chosen
 */
export function plainAnswers(
  runs: readonly Run[],
  order: readonly (keyof typeof ESTIMATORS)[],
): Readonly<Record<string, readonly Rows[]>> {
  const known = knownIn(runs);
  const tasks = by(runs, ({ task }) => task).map(([, of]) => of);
  const solved = known.filter(solvedOf);
  const chances = (k: number): { tries: readonly Run[]; one: number; all: number }[] =>
    tasks.flatMap((tries) => {
      const [n, c] = [knownIn(tries).length, knownIn(tries).filter(solvedOf).length];
      return n < k ? [] : [{ tries, one: 1 - choose(n - c, k) / choose(n, k), all: choose(c, k) / choose(n, k) }];
    });
  const [first, error] = [
    mean(chances(1).map(({ one }) => one))!,
    deviation(chances(1).map(({ one }) => one)) / Math.sqrt(chances(1).length),
  ];
  const hasSignal = (group: readonly Run[]): boolean => new Set(knownIn(group).map(({ reward }) => reward)).size > 1;
  const groups = tasks.filter(hasSignal).map((group) => creditsOf(group).filter(({ run }) => run.reward !== null));
  const valuesOf = (some: readonly Credit[], name: string): number[] => some.map(({ values }) => values[name]!);
  const sizeOf = (some: readonly Credit[], name: string): number => mean(valuesOf(some, name).map(Math.abs))!;
  const all = groups.flat();
  const estimators = order.flatMap((one, i) => order.slice(i + 1).map((other) => [one, other] as const));

  const agents = [...new Set(runs.flatMap((one) => one.agents))].sort();
  /** Among tasks that runs of both kinds tried. */
  const differences = (is: (run: Run) => boolean): number[] =>
    tasks.flatMap((tries) => {
      const [yes, no] = [rateOf(tries.filter(is)), rateOf(tries.filter((one) => !is(one)))];
      return yes === null || no === null ? [] : [yes - no];
    });
  const lengths = (measure: string, of: (run: Run) => number) =>
    by(runs, (one) => (of(one) === 0 ? 0 : 2 ** Math.floor(Math.log2(of(one))))).map(([least, some]) => ({
      ...{ measure, at_least: Number(least), below: Math.max(1, 2 * Number(least)), episodes: some.length },
      ...{
        known: knownIn(some).length,
        solve_rate: rateOf(some),
        mean_reward: mean(knownIn(some).map((one) => one.reward!)),
      },
    }));
  const called = runs.flatMap((run) => run.tools.map((call) => ({ run, call })));
  const again = ({ tools }: Run): number =>
    tools.length - new Set(tools.map(([name, argument]) => `${name} ${argument}`)).size;
  const pairs = agents.flatMap((agent, i) => agents.slice(i + 1).map((other) => [agent, other] as const));
  const inTurns = (run: Run, [a, b]: readonly [string, string]): boolean =>
    run.agents.some((one, i) => (one === a && run.agents[i + 1] === b) || (one === b && run.agents[i + 1] === a));
  const turns = runs.flatMap(({ agents: all, episode }) =>
    all.slice(1).map((next, i) => ({ agent: all[i]!, next, episode })),
  );
  const mistakes = runs.filter(({ mistake }) => mistake !== null);
  const whoErred = (run: Run): string => run.agents[run.mistake!]!;
  const local = known.flatMap((run) =>
    Object.entries(run.tidy).map(([step, value]) => ({ run, agent: run.agents[Number(step)]!, value })),
  );
  /** Steps that are right or wrong by one name, each with the one before it, by the same agent if there is one. */
  const changes = runs.flatMap(({ right, tidy, agents: all }) =>
    (
      [
        ['correct', Object.entries(right)],
        [
          'tidy',
          Object.entries(tidy).flatMap(([n, value]) => (value >= 1 || value <= 0 ? [[n, value >= 1] as const] : [])),
        ],
      ] as const
    ).flatMap(([name, judged]) =>
      judged.flatMap(([n, is], i) => {
        const earlier = judged.slice(0, i);
        const own = earlier.findLast(([m]) => all[Number(m)] === all[Number(n)]);
        const before = own ?? earlier.at(-1);
        if (before === undefined) return [];
        const after = all.slice(0, Number(n)).findLast((agent) => agent !== all[Number(n)]);
        return [{ name, compared_with: own ? 'agent' : 'team', after_agent: after, was: before[1], is }];
      }),
    ),
  );
  const isSingle = (run: Run): boolean => new Set(run.agents).size === 1;
  const calls = (some: readonly Run[]): number => sum(some.map((one) => one.agents.length));
  const roles = agents.map((role) => {
    const [withIt, without] = [runs.filter((one) => has(one, role)), runs.filter((one) => !has(one, role))];
    const [rate, other] = [rateOf(withIt), rateOf(without)];
    return {
      ...{ role, known: knownIn(withIt).length, solve_rate: rate, known_without: knownIn(without).length },
      ...{ solve_rate_without: other, tasks_compared: differences((one) => has(one, role)).length },
      ...{ difference: mean(differences((one) => has(one, role))), split_known_without: knownIn(without).length },
      split_difference: rate === null || other === null ? null : rate - other,
    };
  });

  return {
    'How good is a team, in k attempts?': [
      Array.from({ length: Math.max(...tasks.map((tries) => knownIn(tries).length)) }, (_, i) => {
        const all = chances(i + 1);
        return {
          ...{
            k: i + 1,
            tasks: all.length,
            at_least_one: mean(all.map(({ one }) => one)),
            all_of_them: mean(all.map((one) => one.all)),
          },
          unknown: sum(all.map(({ tries }) => tries.length - knownIn(tries).length)),
        };
      }),
    ],
    'How sure is a rate?': [
      [
        {
          tasks: tasks.length,
          pass_at_1: first,
          standard_error: error,
          low: first - 1.96 * error,
          high: first + 1.96 * error,
        },
      ],
    ],
    'Which tasks teach?': [
      by(tasks, (tries) => `${knownIn(tries).length} ${knownIn(tries).filter(solvedOf).length}`).map(([key, some]) => ({
        ...{ known: Number(key.split(' ')[0]), solved: Number(key.split(' ')[1]), tasks: some.length },
      })),
    ],
    'Is a later attempt better?': [
      by(runs, ({ attempt }) => attempt).map(([attempt, some]) => ({
        ...{ attempt: Number(attempt), known: knownIn(some).length, solve_rate: rateOf(some) },
      })),
    ],
    'Do the attempts agree?': [
      tasks.map((tries) => {
        const [majority, of] = by(tries, ({ answer }) => answer).sort((a, b) => b[1].length - a[1].length)[0]!;
        return {
          ...{
            task_id: tries[0]!.task,
            answered: tries.length,
            distinct_answers: new Set(tries.map(({ answer }) => answer)).size,
          },
          ...{
            majority,
            agreement: of.length / tries.length,
            tied: false,
            majority_right: null,
            majority_solve_rate: rateOf(of),
          },
        };
      }),
    ],
    'Which groups have no signal for an estimator?': [
      [
        ...by(tasks, hasSignal).map(([signal, some]) => ({
          ...{
            kind: 'episodes',
            name: null,
            mixed: false,
            signal: signal === 'true',
            reason: signal === 'true' ? null : 'zero_variance',
          },
          ...{
            groups: some.length,
            members: some.flat().length,
            missing: some.flat().length - knownIn(some.flat()).length,
          },
          solved: some.flat().filter(solvedOf).length,
        })),
        ...by(
          by(local, ({ run, agent }) => `${run.task} ${agent}`).map(([, some]) => some.map(({ value }) => value)),
          (values) => (values.length === 1 ? 'group_of_one' : new Set(values).size === 1 ? 'zero_variance' : null),
        ).map(([reason, some]) => ({
          ...{ kind: 'candidates', name: 'tidy', mixed: false, signal: reason === 'null', reason },
          ...{
            groups: some.length,
            members: some.flat().length,
            missing: 0,
            solved: some.flat().filter((value) => value >= 1).length,
          },
        })),
      ],
      by(
        runs.map((run) => ({ run, group: tasks.find((one) => one.includes(run))! })),
        ({ run, group }) => `${hasSignal(group)} ${run.reward === null}`,
      ).map(([key, some]) => {
        const among = new Set(some.map(({ group }) => group)).size;
        const [signal, missing] = key.split(' ').map((one) => one === 'true');
        return {
          ...{
            signal,
            group_reason: signal ? null : 'zero_variance',
            credit_reason: missing ? 'missing_reward' : signal ? null : 'zero_variance',
          },
          ...{
            groups: among,
            groups_with_advantage: signal && !missing ? among : 0,
            steps: calls(some.map(({ run }) => run)),
          },
        };
      }),
    ],
    'How do the estimators differ on the same steps?': [
      by(
        tasks.flatMap((group) =>
          creditsOf(group).map((one) => ({
            ...one,
            of: knownIn(group).filter(solvedOf).length,
            signal: hasSignal(group),
          })),
        ),
        ({ of, run }) => `${of} ${solvedOf(run)}`,
      ).map(([key, some]) => ({
        ...{
          solved_of_group: Number(key.split(' ')[0]),
          solved: some[0]!.run.reward === null ? null : key.endsWith('true'),
        },
        ...{ groups: new Set(some.map(({ run }) => run.task)).size, steps: some.length },
        ...Object.fromEntries(
          Object.keys(some[0]!.values).map((name) => [
            name,
            some[0]!.run.reward === null ? null : mean(some.map(({ values, signal }) => (signal ? values[name]! : 0))),
          ]),
        ),
      })),
      estimators.map(([one, other]) => ({
        ...{ estimator: ESTIMATORS[one], other: ESTIMATORS[other], steps: all.length },
        opposite_sign: all.filter(({ values }) => values[one]! * values[other]! < 0).length,
        zero_in_one: all.filter(({ values }) => (values[one] === 0) !== (values[other] === 0)).length,
        correlation: mean(groups.map((some) => correlation(valuesOf(some, one), valuesOf(some, other))!)),
        size_ratio: sizeOf(all, one) / sizeOf(all, other),
      })),
    ],
    'Where do estimators disagree most?': [
      groups.map((some) => {
        const spreads = some.map(({ values }) => {
          const scaled = order.map((name) => values[name]! / sizeOf(all, name));
          return Math.max(...scaled) - Math.min(...scaled);
        });
        return {
          ...{
            group_id: some[0]!.run.task,
            steps: some.length,
            mean_spread: mean(spreads),
            largest_spread: Math.max(...spreads),
          },
          signs_differ: some.filter(({ values }) =>
            [1, -1].every((sign) => order.some((name) => Math.sign(values[name]!) === sign)),
          ).length,
        };
      }),
      groups.map((some) => ({
        ...{ group_id: some[0]!.run.task, steps: some.length },
        spearman: correlation(places(valuesOf(some, 'rloo')), places(valuesOf(some, 'drmas'))),
      })),
    ],
    'Which tests caught which programs?': [[]],
    'Do long episodes fail?': [
      [...lengths('calls', (one) => one.agents.length), ...lengths('tool_calls', (one) => one.tools.length)],
    ],
    'Are solved episodes shorter?': [
      by(known, solvedOf).map(([is, some]) => ({
        ...{
          solved: is === 'true',
          episodes: some.length,
          median_characters: median(some.map(({ texts }) => texts.join('').length)),
        },
      })),
    ],
    'Which tools are called, and which fail?': [
      by(called, ({ call }) => call[0]).map(([name, some]) => ({
        ...{ name, calls: some.length, episodes: new Set(some.map(({ run }) => run.episode)).size },
        failed: some.filter(({ call }) => call[2] === 'error').length,
        no_result: some.filter(({ call }) => call[2] === null).length,
      })),
    ],
    'Does a tool go with success?': [
      [...new Set(called.map(({ call }) => call[0]))].map((name) => {
        const uses = (run: Run): boolean => run.tools.some((one) => one[0] === name);
        const compared = tasks.flatMap((tries) => {
          const [withIt, without] = [rateOf(tries.filter(uses)), rateOf(tries.filter((one) => !uses(one)))];
          return withIt === null || without === null ? [] : [[withIt, without] as const];
        });
        return {
          ...{ name, tasks_compared: compared.length, with_it: mean(compared.map(([one]) => one)) },
          ...{ without_it: mean(compared.map(([, other]) => other)), difference: mean(differences(uses)) },
        };
      }),
    ],
    'Does an agent repeat its calls?': [
      by(runs, (one) => Math.min(2, again(one))).map(([calls_repeated, some]) => ({
        ...{ calls_repeated: Number(calls_repeated), known: knownIn(some).length, solve_rate: rateOf(some) },
      })),
    ],
    'How do episodes end?': [
      [{ stop_reason: 'not recorded', episodes: runs.length, known: known.length, solve_rate: rateOf(runs) }],
    ],
    'What does a solved task cost, and is a team dominated?': [
      [
        {
          ...{ tasks: tasks.length, known: known.length, solved: solved.length, solve_rate: rateOf(runs) },
          ...{ dominated_on_calls: false, calls_per_solved: calls(known) / solved.length },
          tool_calls_per_solved: sum(known.map(({ tools }) => tools.length)) / solved.length,
          tokens_per_solved: known.some(({ tokens }) => tokens === null)
            ? null
            : sum(known.map(({ tokens }) => tokens!)) / solved.length,
          metered: known.filter(({ tokens }) => tokens !== null).length,
        },
      ],
    ],
    'What do budgets and depth buy?': [
      by(
        runs.filter(({ budget }) => budget !== null),
        ({ budget }) => budget,
      ).map(([amount, some]) => ({
        ...{ budget: 'tool_calls', amount: Number(amount), known: knownIn(some).length, solve_rate: rateOf(some) },
        mean_tool_calls: mean(some.map(({ tools }) => tools.length)),
        used_up: some.filter(({ tools }) => tools.length >= Number(amount)).length,
      })),
      [
        {
          ...{ depth: null, episodes: runs.length, known: known.length, solve_rate: rateOf(runs) },
          mean_members: mean(runs.map((one) => new Set(one.agents).size)),
          mean_calls: mean(runs.map((one) => one.agents.length)),
        },
      ],
    ],
    'Does a role or a pair of agents help?': [
      roles,
      pairs.map((pair) => {
        const together = runs.filter((one) => inTurns(one, pair));
        const gains = differences((one) => inTurns(one, pair));
        return {
          ...{ agent: pair[0], other_agent: pair[1], episodes: together.length, by_message: 0, by_handover: 0 },
          ...{ by_turns: together.length, known: knownIn(together).length, solve_rate: rateOf(together) },
          ...{ tasks_compared: gains.length, difference: mean(gains) },
        };
      }),
      roles.map(({ role, known: n, known_without, split_difference }) => ({
        ...{ role, checkpoints: 1, known: n, known_without, split_difference },
      })),
    ],
    'Who does the work, and who is lazy?': [
      agents.map((agent) => {
        const teams = runs.filter((one) => has(one, agent) && !isSingle(one));
        const share = (run: Run): number => run.agents.filter((one) => one === agent).length / run.agents.length;
        return {
          ...{ agent, episodes: teams.length, never_spoke: 0, influence: null, share_of_steps: mean(teams.map(share)) },
          of_fair_share: mean(teams.map((run) => share(run) * new Set(run.agents).size)),
        };
      }),
    ],
    'Which agent makes a call after which?': [
      by(turns, ({ agent, next }) => `${agent} ${next}`).map(([, some]) => ({
        ...{ agent: some[0]!.agent, next_agent: some[0]!.next, times: some.length },
        episodes: new Set(some.map(({ episode }) => episode)).size,
        share_of_agent: some.length / turns.filter(({ agent }) => agent === some[0]!.agent).length,
      })),
    ],
    'Does the local reward serve the team?': [
      by(local, ({ agent }) => agent).map(([role, some]) => {
        const [won, lost] = [some.filter(({ run }) => solvedOf(run)), some.filter(({ run }) => !solvedOf(run))];
        return {
          ...{ origin: 'recorded', name: 'tidy', role, known: some.length },
          ...{
            mean_when_solved: mean(won.map(({ value }) => value)),
            mean_when_not: mean(lost.map(({ value }) => value)),
          },
          correlation: correlation(
            some.map(({ value }) => value),
            some.map(({ run }) => Number(solvedOf(run))),
          ),
          praised_in_failure: lost.filter(({ value }) => value > 0).length,
          unpraised_in_success: won.filter(({ value }) => value <= 0).length,
        };
      }),
      by(
        local.filter(({ run, value }) => value > 0 && !solvedOf(run)),
        ({ agent }) => agent,
      ).map(([agent, some]) => ({ name: 'tidy', role: agent, agent, praised_and_lost: some.length })),
    ],
    'Who corrects, who spoils?': [
      by(changes, ({ name, compared_with, after_agent }) => [name, compared_with, after_agent]).map(([, some]) => {
        const { name, compared_with, after_agent } = some[0]!;
        return {
          ...{ basis: 'feedback', name, compared_with, after_agent },
          corrected: some.filter(({ was, is }) => !was && is).length,
          spoiled: some.filter(({ was, is }) => was && !is).length,
          stayed_wrong: some.filter(({ was, is }) => !was && !is).length,
        };
      }),
    ],
    'How do teams fail?': [
      by(mistakes, whoErred).map(([role, some]) => ({
        ...{ taxonomy: null, taxonomy_version: null, mode: 'mistake', title: null, category: null, role },
        ...{ failures: some.length, episodes: some.length, share_of_episodes: some.length / mistakes.length },
        in_solved: some.filter(solvedOf).length,
      })),
      by(mistakes, whoErred).map(([agent, some]) => ({
        ...{ agent, mistakes: some.length, at_the_first_entry: 0, median_entry: null },
      })),
    ],
    'How early are runs lost?': [
      by(mistakes, ({ mistake, agents: all }) => Math.floor((4 * mistake!) / all.length) + 1).map(
        ([quarter, some]) => ({
          ...{
            quarter: Number(quarter),
            mistakes: some.length,
            mean_calls: mean(some.map((one) => one.agents.length)),
          },
        }),
      ),
    ],
    'Is a team better than one agent?': [
      by(tasks, (tries) => tries.some(isSingle)).map(([met, some]) => {
        const teams = some.map((tries) => tries.filter((one) => !isSingle(one)));
        const singles = met === 'true' ? some.map((tries) => tries.filter(isSingle)) : null;
        const gains = singles?.map((single, i) => rateOf(teams[i]!)! - rateOf(single)!) ?? [];
        const callsOf = (tries: readonly Run[]): number => calls(knownIn(tries)) / knownIn(tries).length;
        return {
          ...{ tasks: some.length, single_rate: singles && mean(singles.map((one) => rateOf(one)!)) },
          ...{ team_rate: mean(teams.map((one) => rateOf(one)!)), difference: mean(gains) },
          team_wins: gains.filter((one) => one > 0).length,
          single_wins: gains.filter((one) => one < 0).length,
          ...{ single_calls: singles && mean(singles.map(callsOf)), team_calls: mean(teams.map(callsOf)) },
        };
      }),
    ],
    'Who was to blame, and who was blamed?': [
      [
        {
          ...{ method: 'not judged', failures: mistakes.length, answered_agent: 0 },
          ...{ agent_accuracy: null, step_accuracy: null, entries_off: null },
        },
      ],
    ],
  };
}
