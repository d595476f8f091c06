import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { groupId } from '../../store/loop/play/ids.ts';
import { freshDatabase, type TestDatabase } from '../support/database.ts';
import { lines } from './support/chats.ts';
import { WORDS } from './support/plays.ts';
import { document, type Running, type Shell, shell } from './support/troupe.ts';

/** Each test starts several processes. */
const SLOW = 300_000;

/** Asks the policy once, or for another agent again, in the words of the version that it plays. Even samples are right, so every group has a signal; a task that breaks fails at its last sample. */
const TEAM = `
import { readFileSync } from 'node:fs';
const task = JSON.parse(readFileSync(process.env.TROUPE_TASK, 'utf8'));
const { TROUPE_TEAM } = process.env;
// A version of the team says what each question begins with.
const begin = TROUPE_TEAM === undefined ? [] : JSON.parse(readFileSync(TROUPE_TEAM, 'utf8')).agents.map(({ prompt }) => prompt);
const ask = async (agent) => {
  const response = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY, 'troupe-agent': agent },
    body: JSON.stringify({ model: 'policy:solver', messages: [{ role: 'user', content: [...begin, task.prompt].join(' ') }], max_tokens: 3, seed: Number(process.env.TROUPE_SEED) }),
  });
  if (!response.ok) throw new Error(response.status + ' ' + await response.text());
};
await ask('agent');
if (task.twice) await ask('second');
const sample = Number(process.env.TROUPE_SAMPLE);
if (task.breaks && sample === 1) process.exit(4);
console.log(JSON.stringify({ reward: sample % 2 === 0 ? 1 : 0 }));
`;

/** Writes a question about its task: of the third task none that can be read, and at its second sample one that it finds bad itself. */
const WRITER = `
import { readFileSync } from 'node:fs';
const task = JSON.parse(readFileSync(process.env.TROUPE_TASK, 'utf8'));
const response = await fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'policy:solver', messages: [{ role: 'user', content: task.prompt }], max_tokens: 1, seed: Number(process.env.TROUPE_SEED) }),
});
if (!response.ok) throw new Error(response.status + ' ' + await response.text());
const sample = Number(process.env.TROUPE_SAMPLE);
const written = { task_id: 'about-' + task.task_id, prompt: 'what is ' + task.prompt, domain: 'written' };
console.log(JSON.stringify({ reward: sample === 1 ? 0 : 1, answer: task.breaks ? 'no question' : JSON.stringify(written) }));
`;

describe('a plan that begins with a rollout', () => {
  let database: TestDatabase;
  let at: Shell;
  const path = (name: string) => join(at.folder, name);
  const troupe = async (...args: string[]) => {
    const ended = await at.run([...args, '--json']);
    return { code: ended.code, err: ended.err, out: ended.out === '' ? null : document(ended) };
  };
  const plan = (name: string, rollout: object = {}, more: object = {}) => ({
    name,
    seed: 5,
    rounds: 2,
    rollout: { runner: 'solver', tasks: 'tasks.jsonl', samples: 2, serving_within_s: 60, ...rollout },
    judge: [{ method: 'grpo_advantage' }],
    policies: {
      solver: {
        base: 'model',
        recipe: { unit: 'step', credit: 'grpo_advantage' },
        train: { method: 'rl', groups: 2, learning_rate: 0.01 },
      },
    },
    gate: { kind: 'manual' },
    ...more,
  });
  const written = (name: string, value: object) => {
    writeFileSync(path(`${name}.yaml`), stringify(value));
    return path(`${name}.yaml`);
  };
  let infer: Running;

  beforeAll(async () => {
    database = await freshDatabase();
    at = shell({ DATABASE_URL: database.url });
    writeFileSync(path('team.mjs'), TEAM);
    const solver = { command: [process.execPath, path('team.mjs')], reward: 'stdout', retries: 0 };
    writeFileSync(path('writer.mjs'), WRITER);
    const writer = { command: [process.execPath, path('writer.mjs')], reward: 'stdout', retries: 0 };
    writeFileSync(path('troupe.yaml'), stringify({ runners: { solver, writer } }));
    const questions = ['one plus two', 'two plus two', 'zero plus one'];
    const tasks = questions.map((prompt, i) => ({ task_id: `t${i}`, prompt, ...(i === 2 ? { breaks: true } : {}) }));
    writeFileSync(path('tasks.jsonl'), lines(tasks));
    const sums = [
      'one plus one',
      'two plus one',
      'zero plus two',
      'three plus one',
      'one plus three',
      'zero plus three',
    ];
    const heldOut = sums.map((prompt, i) => ({ task_id: `h${i}`, prompt }));
    writeFileSync(path('held-out.jsonl'), lines(heldOut));
    writeFileSync(path('broken.jsonl'), lines(tasks.slice(2)));
    writeFileSync(path('twice.jsonl'), lines(tasks.map((task, i) => ({ ...task, task_id: `w${i}`, twice: true }))));
    const config = {
      ...{ words: WORDS, hidden_size: 16, intermediate_size: 32, num_hidden_layers: 1, num_attention_heads: 2 },
      ...{ num_key_value_heads: 2, max_position_embeddings: 32 },
    };
    writeFileSync(path('model.json'), JSON.stringify(config));
    const made = await troupe('model', 'new', '--dir', path('model'), '--config', path('model.json'), '--seed', '3');
    expect([made.code, made.err]).toEqual([0, '']);
    const serve = at.start(['run', 'serve', '--port', '0', '--json']);
    infer = at.start(['run', 'infer', '--policy', 'solver', '--model', path('model'), '--json']);
    await Promise.all([serve.waitForOutput(/^\{"role"/m), infer.waitForOutput(/^\{"role"/m)]);
  }, SLOW);
  afterAll(async () => {
    at.remove();
    await database.close();
  });

  it(
    'plan check counts its tasks and attempts, and refuses a runner that is not known with the nearest name',
    async () => {
      const checked = await troupe('plan', 'check', written('loop', plan('loop', { per_round: 2 })));
      expect(checked).toMatchObject({
        code: 0,
        out: {
          stages: ['serving', 'rollout', 'judge', 'freeze-solver', 'train-solver', 'gate'],
          rollout: { runner: 'solver', tasks: 3, tasks_of_round: 2, samples: 2, attempts: 4, attempts_at_most: 4 },
        },
      });
      const repeated = await troupe('plan', 'check', written('again', plan('again', { per_round: 2, iterations: 3 })));
      expect(repeated.out.rollout).toMatchObject({ iterations: 3, attempts: 12 });
      const unjudged = await troupe('plan', 'check', written('unjudged', { ...plan('unjudged'), judge: [] }));
      expect(unjudged.out.notes.join(' ')).toMatch(/policies.solver.recipe reads \w+, and no entry of judge runs it/);
      const { solver } = plan('misspelt').policies;
      const recipe = { ...solver.recipe, where: 'verdict(correctnes_filter)' };
      const misspelt = plan('misspelt', {}, { policies: { solver: { ...solver, recipe } } });
      const none = await troupe('plan', 'check', written('misspelt', misspelt));
      expect([none.code, none.out.problems]).toEqual([
        1,
        [
          'policies.solver.recipe reads correctnes_filter, and there is no such method. Did you mean correctness_filter?',
        ],
      ]);
      const wrong = written('wrong', plan('wrong', { runner: 'slover' }));
      const refused = await troupe('plan', 'check', wrong);
      expect([refused.code, refused.out.problems.join(' ')]).toEqual([1, expect.stringContaining('mean solver?')]);
      const run = await troupe('plan', 'run', wrong);
      expect([run.code, run.out.error.code]).toEqual([1, 'plan_blocked']);
      expect((await troupe('plan', 'list')).out).toMatchObject({ items: [], total: 0 });
    },
    SLOW,
  );

  it(
    'grows the episodes of complete groups into trees by its branches, and learns from what was sampled',
    async () => {
      const branches = [{ where: 'role = second', samples: 2 }];
      const file = written('grown', {
        ...plan('grown', { tasks: 'twice.jsonl', branches }),
        ...{ rounds: 1, judge: [{ method: 'at_grpo_advantage' }] },
        policies: {
          solver: { ...plan('grown').policies.solver, recipe: { unit: 'step', credit: 'at_grpo_advantage' } },
        },
      });
      const checked = await troupe('plan', 'check', file);
      expect(checked.out.stages.slice(0, 3)).toEqual(['serving', 'rollout', 'rollout/branch-1']);
      const asked = await troupe('plan', 'run', file);
      expect([asked.err, asked.code, asked.out.state]).toEqual(['', 7, 'undecided']);
      const { out } = await troupe('gate', 'accept', 'grown-1');
      // Two tasks of two samples, and two more from the second step of each.
      expect(out.rounds[0].rollout).toMatchObject({
        ...{ rollout_id: 'grown-1/1/rollout', episodes: 12, groups: { complete: 6, partial: 1 }, stale: 0, unknown: 0 },
      });
      const { rows } = await database.db.query(
        `select coalesce(c.completed_agent_id, c.requested_agent_id) as agent, count(*)::int as rows, bool_or(c.copied) as copied
         from traj.dataset_rows r join facts.calls c using (episode_id, call_id)
         join facts.episodes e using (episode_id) where e.tags ->> 'rollout' like 'grown-1/%' group by 1 order by 1`,
      );
      expect(rows).toEqual([
        { agent: 'agent', rows: 4, copied: null },
        { agent: 'second', rows: 12, copied: null },
      ]);
    },
    SLOW,
  );

  it(
    'ends a run whose budget is used up, keeps what was played, and goes on there with a larger one',
    async () => {
      const spare = (tokens: number) =>
        written('spare', plan('spare', { samples: 4 }, { rounds: 1, budget: { tokens, minutes: 60 } }));
      expect((await troupe('plan', 'check', spare(1))).out.budget).toEqual({ tokens: 1, minutes: 60 });
      const ended = await troupe('plan', 'run', spare(1));
      expect([ended.code, ended.out]).toMatchObject([7, { run: 'spare-1', released: false, rounds: [] }]);
      expect(ended.out.ended_early).toMatch(
        /^The budget of 1 token was used up: \d+ recorded\. So spare-1\/1\/judge did/,
      );
      // The runner plays four at a time, so the first group was under way.
      const left = { code: 'budget', samples: 4 };
      const shown = (await troupe('plan', 'show', 'spare-1')).out;
      const result = async (job: string) => (await troupe('jobs', 'show', job)).out.result;
      expect(await result(shown.stages.at(-1).job_id)).toMatchObject({
        attempts: { done: 4, failed: 0 },
        partial: [{ why: [left] }, { why: [left] }],
      });
      const sum = async () =>
        (
          await database.db.query(
            `select count(*)::int as calls, sum(c.input_tokens + c.output_tokens)::int as tokens from facts.calls c join facts.episodes using (episode_id)
             where tags ->> 'rollout' like 'spare-1/%'`,
          )
        ).rows[0] as { calls: number; tokens: number };
      const before = await sum();
      expect([shown.budget, shown.spent]).toMatchObject([
        { tokens: 1, minutes: 60 },
        { tokens: before.tokens, usd: null, uncounted: 0, unpriced: 0 },
      ]);
      expect((await at.run(['plan', 'show', 'spare-1'])).out).toContain(
        `Used: tokens ${before.tokens} of 1 · minutes `,
      );

      const more = await troupe('plan', 'run', spare(100_000));
      expect([more.err, more.out]).toMatchObject(['', { run: 'spare-1', state: 'undecided' }]);
      const { run, stages, spent } = (await troupe('plan', 'show', 'spare-1')).out;
      expect([run.state, run.outcome, run.result]).toEqual(['running', null, null]);
      expect(stages).toContainEqual(expect.objectContaining({ job_id: 'spare-1/1/rollout' }));
      expect(await result('spare-1/1/rollout')).toMatchObject({
        attempts: { done: 11, failed: 1 },
        groups: { complete: 2, partial: 1 },
      });
      // One call an episode: what had been played was not played again.
      expect(await sum()).toEqual({ calls: 12, tokens: spent.tokens });
      expect((await troupe('gate', 'refuse', 'spare-1')).out).toMatchObject({
        ended_early: null,
        rounds: [{ round: 1 }],
      });
      // It came to its end: the same plan with yet another budget is a new run.
      expect((await troupe('plan', 'run', spare(1))).out.run).toBe('spare-2');
    },
    SLOW,
  );

  it(
    'cuts a gate short whose budget is used up, releases nothing, and decides it once the plan has a larger one',
    async () => {
      const gate = { kind: 'play', runner: 'solver', tasks: 'held-out.jsonl', samples: 4, serving_within_s: 60 };
      const halves = (of: object) => written('halves', plan('halves', {}, { rounds: 1, ...of }));
      const manual = await troupe('plan', 'run', halves({}));
      expect([manual.err, manual.out.state]).toEqual(['', 'undecided']);
      const { tokens } = (await troupe('plan', 'show', 'halves-1')).out.spent;
      await troupe('gate', 'refuse', 'halves-1');

      const ended = await troupe('plan', 'run', halves({ gate, budget: { tokens: tokens + 1 } }));
      expect([ended.err, ended.code, ended.out]).toMatchObject([
        '',
        7,
        { run: 'halves-2', released: false, rounds: [] },
      ]);
      expect(ended.out.ended_early).toMatch(
        /^The budget of \d\d+ tokens was used up: \d+ recorded\. So halves-2\/1\/gate was cut short and nothing is released/,
      );
      const shown = await troupe('gate', 'show', 'halves-2');
      expect([shown.code, shown.out]).toMatchObject([7, { passed: false, outcome: 'no_data' }]);
      expect((await at.run(['plan', 'show', 'halves-2'])).out).toContain('halves-2/1/gate was cut short');
      const attempts = async () =>
        (
          await database.db.query(
            `select tags ->> 'side' as side, count(*)::int as episodes from facts.episodes
             where tags ->> 'gate' = 'halves-2/1/gate' group by 1 order by 1 desc`,
          )
        ).rows;
      expect(await attempts()).toEqual([{ side: 'incumbent', episodes: 4 }]);

      const more = await troupe('plan', 'run', halves({ gate, budget: { tokens: 100_000 } }));
      expect([more.err, more.out]).toMatchObject(['', { run: 'halves-2', ended_early: null, rounds: [{ round: 1 }] }]);
      const decided = (await troupe('gate', 'show', 'halves-2')).out;
      expect(decided).toMatchObject({ gate: 'halves-2/1/gate', main: { tasks: 6 } });
      expect(decided).not.toHaveProperty('cut_short');
      // Nothing was played twice.
      expect(await attempts()).toEqual([
        { side: 'incumbent', episodes: 24 },
        { side: 'candidate', episodes: 24 },
      ]);
    },
    SLOW,
  );

  it(
    'trains on the complete groups of each round, which the weights of the release before have answered',
    async () => {
      const asked = await troupe('plan', 'run', written('loop', plan('loop')));
      expect([asked.err, asked.code, asked.out.state]).toEqual(['', 7, 'undecided']);
      const second = await troupe('gate', 'accept', 'loop-1');
      expect([second.err, second.out.state]).toEqual(['', 'undecided']);
      const { code, out } = await troupe('gate', 'accept', 'loop-1');
      expect([code, out.released]).toEqual([0, true]);
      const [first, next] = out.rounds;
      for (const [round, { rollout }] of [
        [1, first],
        [2, next],
      ] as const)
        expect(rollout).toEqual({
          rollout_id: `loop-1/${round}/rollout`,
          episodes: 4,
          groups: { complete: 2, partial: 1 },
          left_out: [{ code: 'exit', message: 'Exit code 4.', samples: 1 }],
          withheld: 0,
          stale: 0,
          unknown: 0,
        });
      // The second round was answered by what the first one released, and trained on nothing else.
      const { rows } = await database.db.query(
        `select d.dataset_id, count(*)::int as rows, array_agg(distinct r.episode_id order by r.episode_id) as episodes,
                array_agg(distinct c.checkpoint_id) as answered_by
         from facts.checkpoints k, json_array_elements_text(k.dataset_ids) as d (dataset_id)
         join traj.dataset_rows r using (dataset_id) join facts.calls c using (episode_id, call_id)
         where k.checkpoint_id = $1 group by 1`,
        [next.candidates.solver],
      );
      expect(rows).toMatchObject([
        {
          rows: 4,
          episodes: [0, 1].flatMap((task) =>
            [0, 1].map((sample) => `${groupId('loop-1/2/rollout', `t${task}`, task)}/${sample}`),
          ),
          answered_by: [first.candidates.solver],
        },
      ]);
      const shown = await at.run(['plan', 'show', 'loop-1']);
      expect(shown.out).toContain('The recipes of a round take only the complete groups of its rollout.');
      expect(shown.out).toContain(
        'Rollout loop-1/2/rollout: 2 groups complete; 1 partial and left out (1 sample exit: Exit code 4.); stale: 0 of 4 episodes.',
      );
    },
    SLOW,
  );

  it(
    'plays each iteration of a round with the weights trained last, and releases none of them before the gate',
    async () => {
      const recipe = { unit: 'step', credit: 'grpo_advantage', roles: ['agent'] };
      const train = { method: 'rl', groups: { agent: 2 }, learning_rate: { agent: 0.01 }, warmup: 2 };
      const asked = plan(
        'often',
        { per_round: 2, iterations: 3 },
        { rounds: 1, policies: { solver: { base: 'model', recipe, train } } },
      );
      const releases = () => database.db.query(`select release_id from facts.releases order by version`);
      const before = await releases();
      await troupe('plan', 'run', written('often', asked));
      expect((await releases()).rows).toEqual(before.rows);
      const { rows } = await database.db.query(
        `select i as iteration, k.kept, k.parent_id as began_with,
                (select array_agg(distinct checkpoint_id) from facts.calls join facts.episodes e using (episode_id)
                 where e.tags ->> 'rollout' = 'often-1/1/' || i || '/rollout') as answered_by
         from generate_series(1, 3) as i
         join troupe.job_queue j on j.job_id = 'often-1/1/' || i || '/train-solver'
         join facts.checkpoints k on k.checkpoint_id = j.result ->> 'checkpoint_id' order by i`,
      );
      expect(rows.map((row) => row.iteration)).toEqual([1, 2, 3]);
      for (const { answered_by, began_with } of rows) expect(answered_by).toEqual([began_with]);
      expect(new Set(rows.flatMap((row) => row.answered_by)).size).toBe(3);
      const { out } = await troupe('gate', 'accept', 'often-1');
      expect(out.rounds[0].rollout).toMatchObject({ rollout_id: 'often-1/1/*/rollout', stale: 0, unknown: 0 });
      expect(rows.map((row) => row.kept)).toEqual([false, false, true]);
    },
    SLOW,
  );

  it(
    'plays a round that goes on from the last candidate with that one, though the gate did not release it',
    async () => {
      const solver = { ...plan('last').policies.solver, from: 'last' };
      await troupe('plan', 'run', written('last', plan('last', {}, { rounds: 2, policies: { solver } })));
      await troupe('gate', 'refuse', 'last-1');
      const { out } = await troupe('gate', 'refuse', 'last-1');
      const [first, second] = out.rounds;
      expect([first.release_id, second.rollout.stale, second.rollout.unknown]).toEqual([null, 0, 0]);
      const { rows } = await database.db.query(
        `select distinct checkpoint_id from facts.calls join facts.episodes using (episode_id) where tags ->> 'rollout' = 'last-1/2/rollout'`,
      );
      expect(rows).toEqual([{ checkpoint_id: first.candidates.solver }]);
    },
    SLOW,
  );

  it(
    'plays the tasks that writers wrote and that are accepted, and learns from nothing that the writers did',
    async () => {
      const writers = { runner: 'writer', samples: 3, accept: 'reward >= 1' };
      const refused = await troupe(
        'plan',
        'check',
        written('steps', plan('steps', { writers: { ...writers, accept: 'role = agent' } })),
      );
      expect([refused.code, refused.out.error.field]).toEqual([2, 'rollout.writers.accept']);
      const file = written('written', plan('written', { writers }, { rounds: 1 }));
      const checked = await troupe('plan', 'check', file);
      expect(checked.out).toMatchObject({
        rollout: { tasks: 3, tasks_of_round: 9, attempts: 18 },
        notes: expect.arrayContaining([expect.stringContaining('The tasks are written first: 9 episodes of writer')]),
      });
      expect(checked.out.stages.slice(0, 4)).toEqual(['serving', 'write', 'tasks', 'rollout']);
      expect((await troupe('plan', 'run', file)).code).toBe(7);
      const { out } = await troupe('gate', 'refuse', 'written-1');
      // Of nine episodes three gave no reward, and of the six others two wrote no task, and two what was written before.
      expect(out.rounds[0].rollout).toMatchObject({
        ...{ episodes: 4, groups: { complete: 2, partial: 0 }, stale: 0, unknown: 0 },
        written: {
          episodes: 9,
          tasks: 2,
          left_out: { 'not accepted': 3, 'the answer is no JSON object': 2, 'written before': 2 },
        },
      });
      const shown = await at.run(['plan', 'show', 'written-1']);
      expect(shown.out).toMatch(/1\/tasks +tasks +finished +done +2 tasks written by 9 episodes/);
      expect(shown.out).toContain('2 tasks written by 9 episodes (');
      const { rows } = await database.db.query(
        `select task_id, query, domain, tags ->> 'written_by' as by from facts.tasks where domain = 'written' order by 1`,
      );
      expect(rows).toEqual(
        [0, 1].map((i) => ({
          ...{ task_id: `about-t${i}`, domain: 'written', by: `${groupId('written-1/1/write', `t${i}`, i)}/0` },
          query: `what is ${['one plus two', 'two plus two'][i]}`,
        })),
      );
      const learnt = await database.db.query(
        `select distinct split_part(e.tags ->> 'rollout', '/', 3) as stage
         from traj.dataset_rows r join facts.episodes e using (episode_id) where e.tags ->> 'rollout' like 'written-1/%'`,
      );
      expect(learnt.rows).toEqual([{ stage: 'rollout' }]);

      const none = written('none-written', plan('none-written', { writers: { ...writers, accept: 'reward > 1' } }));
      const failed = await troupe('plan', 'run', none);
      expect([failed.code, failed.out.error.message]).toEqual([
        1,
        expect.stringContaining('of 9 episodes of none-written-1/1/write that wrote tasks none is accepted (9 not'),
      ]);
    },
    SLOW,
  );

  it(
    'says which episodes other weights answered than those that training begins with',
    async () => {
      const base = plan('stale', { per_round: 2 }, { rounds: 1 });
      const solver = { ...base.policies.solver, from: 'base' };
      await troupe('plan', 'run', written('stale', { ...base, policies: { solver } }));
      const { out } = await troupe('gate', 'refuse', 'stale-1');
      const { stale, episodes, groups } = out.rounds[0].rollout;
      expect(groups.complete + groups.partial).toBe(2);
      expect([stale, episodes]).toEqual([episodes, 2 * groups.complete]);
    },
    SLOW,
  );

  it(
    'plays its rollout and both sides of its gate in the released version of a team, and the next run in what was released since',
    async () => {
      const version = (word: string) => ({ agents: [{ name: 'agent', prompt: word }] });
      const releasedAs = async (run: string, word: string): Promise<string> => {
        const team = { name: 'solvers', candidate: version(word) };
        expect((await troupe('plan', 'run', written(run, { name: run, team, gate: { kind: 'manual' } }))).code).toBe(7);
        const { code, out } = await troupe('gate', 'accept', `${run}-1`);
        expect(code).toBe(0);
        return out.rounds[0].teams.solvers;
      };
      const gate = { kind: 'play', runner: 'solver', tasks: 'held-out.jsonl', samples: 1, serving_within_s: 60 };
      const asked = plan(
        'in-version',
        { team: 'solvers', per_round: 2 },
        { rounds: 1, gate: { ...gate, team: 'solvers' } },
      );
      const none = await troupe('plan', 'check', written('in-version', asked));
      expect([none.code, none.out.problems]).toEqual([
        1,
        ['rollout', 'gate'].map((at) =>
          expect.stringContaining(`${at}.team: No version of a team solvers is released`),
        ),
      ]);
      const released = await releasedAs('words', 'three');
      expect((await troupe('plan', 'check', written('in-version', asked))).out.problems).toEqual([]);
      const ran = await troupe('plan', 'run', written('in-version', asked));
      expect([ran.err, [0, 7].includes(ran.code ?? -1)]).toEqual(['', true]);
      expect(ran.out.rounds[0].rollout).toMatchObject({ stale: 0, unknown: 0 });
      const played = async (run: string) =>
        (
          await database.db.query(
            `select coalesce(e.tags->>'side', 'rollout') as side, e.team_id, m.text like 'three %' as in_its_words, count(distinct e.episode_id)::int as episodes
             from traj.episodes e join traj.messages m using (episode_id)
             where e.tags->>'rollout' like $1 and m.role = 'user' group by 1, 2, 3 order by 1`,
            [`${run}/%`],
          )
        ).rows;
      const [rollout, ...sides] = (await played('in-version-1')).reverse();
      expect(rollout).toMatchObject({ side: 'rollout', team_id: released, in_its_words: true });
      expect(sides).toEqual(
        ['incumbent', 'candidate'].map((side) => ({ side, team_id: released, in_its_words: true, episodes: 6 })),
      );

      // What another version does is another round's: the next run plays in it.
      const other = await releasedAs('other-words', 'four');
      await troupe('plan', 'run', written('in-other', { ...asked, name: 'in-other', gate: { kind: 'manual' } }));
      expect(await played('in-other-1')).toMatchObject([{ side: 'rollout', team_id: other, in_its_words: false }]);
    },
    SLOW,
  );

  it(
    'fails where no group is complete, and says why',
    async () => {
      const { code, out } = await troupe('plan', 'run', written('none', plan('none', { tasks: 'broken.jsonl' })));
      expect([code, out.error.message]).toEqual([
        1,
        expect.stringContaining('of 1 group of rollout none-1/1/rollout none is complete. 1 sample exit: Exit code 4.'),
      ]);
    },
    SLOW,
  );

  it(
    'begins no rollout before the policy is answered by what was released',
    async () => {
      infer.child.kill('SIGTERM');
      await infer.ended;
      const { code, out } = await troupe('plan', 'run', written('away', plan('away', { serving_within_s: 0.5 })));
      expect([code, out.error.message]).toEqual([
        1,
        expect.stringMatching(/Policy solver should be answered by .* no process serves it/),
      ]);
      const { rows } = await database.db.query(
        `select job_id from troupe.job_queue where starts_with(job_id, 'away-1/')`,
      );
      expect(rows).toEqual([{ job_id: 'away-1/1/serving' }]);
    },
    SLOW,
  );
});
