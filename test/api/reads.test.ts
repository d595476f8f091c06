import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Event } from '../../ingest/events/events.ts';
import { postgresLog } from '../../ingest/log/postgres.ts';
import { anEpisode, event } from '../store/support/events.ts';
import { type TestApp, testApp } from './support/app.ts';

let at: TestApp;
const say = async (...events: Event[]) => {
  await postgresLog(at.db).append(events);
  await at.project();
};
const get = async (url: string) => (await at.app.inject(url)).json();
const hour = (n: number) => new Date(Date.UTC(2026, 0, 1, n)).toISOString();

beforeAll(async () => {
  at = await testApp();
  await say(
    ...anEpisode('solved'),
    event('feedback.recorded', {
      feedback_id: 'matrix',
      target: { kind: 'episode', episode_id: 'solved' },
      kind: 'execution',
      name: 'matrix',
      matrix: {
        programs: [
          { step_id: 'solved-c2/0', valid: true },
          { step_id: 'solved-c2/1' },
          { name: 'right', reference: true },
        ],
        tests: [
          { name: 'example', public: true },
          { name: 'truth', ground_truth: true },
        ],
        pass: [
          [1, 1],
          [0, null],
          [1, 1],
        ],
      },
    }),
    ...Array.from({ length: 7 }, (_, i) =>
      event(
        'episode.started',
        {
          episode_id: `list-${i}`,
          task_id: 'listed',
          group_id: i < 3 ? 'g' : 'h',
          tags: { phase: i % 2 ? 'odd' : 'even', n: i },
        },
        // Two of a time, and one that nobody knows.
        { time: i === 6 ? null : hour(Math.floor(i / 2)) },
      ),
    ),
    ...Array.from({ length: 5 }, (_, i) =>
      event('episode.started', { episode_id: `wide-${i}`, task_id: 'wide', tags: { text: 'ü'.repeat(450_000) } }),
    ),
  );
});
afterAll(() => at.close());

describe('GET /v1/episodes', () => {
  it('goes through all pages, newest first, each episode once', async () => {
    for (const limit of [1, 2, 3, 50]) {
      const seen: string[] = [];
      let after = '';
      for (let page = 0; page < 20; page++) {
        const { items, next } = await get(`/v1/episodes?task_id=listed&limit=${limit}${after}`);
        seen.push(...items.map((row: { episode_id: string }) => row.episode_id));
        if (next === null) break;
        expect(items).toHaveLength(limit);
        after = `&after=${next}`;
      }
      expect(seen).toEqual(['list-5', 'list-4', 'list-3', 'list-2', 'list-1', 'list-0', 'list-6']);
    }
  });

  it('ends a page of large rows at 2 MiB, and goes on after it, each episode once', async () => {
    const pages: string[][] = [];
    let after = '';
    do {
      const { items, next } = await get(`/v1/episodes?task_id=wide&limit=500${after}`);
      pages.push(items.map((row: { episode_id: string }) => row.episode_id));
      after = next === null ? '' : `&after=${next}`;
    } while (after !== '');
    expect(pages).toEqual([
      ['wide-4', 'wide-3', 'wide-2'],
      ['wide-1', 'wide-0'],
    ]);
  });

  it.each([
    ['group_id=g', 3],
    ['tag.phase=odd&task_id=listed', 3],
    ['tag.n=4', 1],
    ['tag.phase=odd&tag.n=4', 0],
    ['outcome=success', 1],
    ['closed=true', 1],
    ['closed=false&task_id=listed', 7],
    ["task_id=';drop table facts.episodes;--", 0],
  ])('filters by %s', async (query, rows) => {
    expect((await get(`/v1/episodes?${query}`)).items).toHaveLength(rows);
  });

  it.each([
    ['limit=0', 'limit'],
    ['limit=501', 'limit'],
    ['limit=many', 'limit'],
    ['after=zzz', 'after'],
    [`after=${Buffer.from('["2026-13-77","x"]').toString('base64url')}`, 'after'],
    [`after=${Buffer.from('["--------------","x"]').toString('base64url')}`, 'after'],
    ['where=1', 'where'],
    ['task_id=a&task_id=b', 'task_id'],
    ['task_id=%00', 'task_id'],
    ['tag.=1', 'tag.'],
    ['closed=perhaps', 'closed'],
  ])('refuses %s, and names the parameter', async (query, field) => {
    const answer = await at.app.inject(`/v1/episodes?${query}`);
    expect([answer.statusCode, answer.json().field]).toEqual([400, field]);
  });
});

describe('the filter of GET /v1/episodes', () => {
  const filtered = (filter: string, more = '') => get(`/v1/episodes?filter=${encodeURIComponent(filter)}${more}`);
  const ids = (page: { items: { episode_id: string }[] }) => page.items.map((row) => row.episode_id);

  it('is the grammar of recipes, as text or as a tree, beside the other parameters and page by page', async () => {
    expect(ids(await filtered('tags.phase = odd and task_id = listed'))).toEqual(['list-5', 'list-3', 'list-1']);
    expect(ids(await filtered('reward >= 1 and count(tool_calls where error) = 0'))).toEqual(['solved']);
    expect(ids(await filtered('{"field":"group_id","op":"=","value":"g"}', '&tag.phase=even'))).toEqual([
      'list-2',
      'list-0',
    ]);
    const first = await filtered('task_id = listed', '&limit=4');
    expect([...ids(first), ...ids(await filtered('task_id = listed', `&after=${first.next}`))]).toHaveLength(7);
  });

  it('warns of a value that no episode has, with the nearest', async () => {
    expect(await filtered('tags.phase = od')).toEqual({
      items: [],
      total: 0,
      next: null,
      waiting_events: 0,
      warnings: ['Nothing has tags.phase = "od". Did you mean odd?'],
    });
  });

  it('warns of a parameter whose value nothing has, where the list is empty for it', async () => {
    expect(await get('/v1/episodes?outcome=sucess')).toEqual({
      items: [],
      total: 0,
      next: null,
      waiting_events: 0,
      warnings: ['Nothing has outcome = "sucess". Did you mean success?'],
    });
    expect((await get('/v1/episodes?tag.phase=od')).warnings).toEqual([
      'Nothing has tags.phase = "od". Did you mean odd?',
    ]);
    expect(await get('/v1/episodes?task_id=listed&limit=1')).not.toHaveProperty('warnings');
  });

  it.each([
    ['rewrd > 0', 'Did you mean reward?'],
    ['reward >', 'expected a value at character 9'],
    ['role = coder', 'a field of single steps'],
    ['{"field":', 'begins like JSON'],
    ['episode.verdict(never_judged)', 'never_judged'],
    ['', 'a filter such as'],
  ])('is refused with 400 and the reason: %s', async (filter, reason) => {
    const answer = await at.app.inject(`/v1/episodes?filter=${encodeURIComponent(filter)}`);
    expect([answer.statusCode, answer.json().field]).toEqual([400, 'filter']);
    expect(answer.json().detail).toContain(reason);
  });
});

describe('GET /v1/episodes/:id', () => {
  it('reads the episode back in order, each message once', async () => {
    const {
      episode,
      task,
      agents,
      conversation: talk,
      steps,
      tool_calls,
      feedback,
      matrices,
    } = await get('/v1/episodes/solved');
    expect(episode).toMatchObject({ episode_id: 'solved', outcome: 'success', reward: 1, steps: 3, closed: true });
    expect(task).toMatchObject({ query: 'What is task-1?' });
    expect(agents).toMatchObject([{ agent_id: 'solver', agent: 'Solver' }]);
    expect(talk).toMatchObject([
      { kind: 'message', who: 'user', text: 'What is task-1?' },
      {
        kind: 'call',
        id: 'solved-c1',
        who: 'Solver',
        // The user's message was shown as such.
        prompt: [],
        prompt_messages: 1,
        input_tokens: 4,
        output_tokens: 3,
        candidates: [{ step_id: 'solved-c1/0', text: 'let me see', tokens: 3 }],
      },
      { kind: 'tool_call', name: 'calc', arguments: { x: 6 }, status: 'ok', output: '42' },
      {
        kind: 'call',
        id: 'solved-c2',
        prompt: [],
        prompt_messages: 2,
        candidates: [
          { step_id: 'solved-c2/0', text: '42', chosen: true },
          { step_id: 'solved-c2/1', text: '41', chosen: null },
        ],
      },
    ]);
    expect(talk).toHaveLength(4);
    expect(steps.map(({ step_id, chosen, tokens }: Record<string, unknown>) => [step_id, chosen, tokens])).toEqual([
      ['solved-c1/0', null, 3],
      ['solved-c2/0', true, null],
      ['solved-c2/1', null, null],
    ]);
    expect(steps[0]).not.toHaveProperty('token_ids');
    expect(tool_calls).toMatchObject([{ name: 'calc', status: 'ok' }]);
    expect(feedback.map(({ kind }: { kind: string }) => kind).sort()).toEqual(['execution', 'reward']);
    expect(matrices).toEqual([
      {
        feedback_id: 'matrix',
        name: 'matrix',
        programs: [
          { step_id: 'solved-c2/0', name: null, valid: true, reference: false },
          { step_id: 'solved-c2/1', name: null, valid: null, reference: false },
          { step_id: null, name: 'right', valid: null, reference: true },
        ],
        tests: [
          { step_id: null, name: 'example', valid: null, ground_truth: false, public: true },
          { step_id: null, name: 'truth', valid: null, ground_truth: true, public: false },
        ],
        pass: [
          [true, true],
          [false, null],
          [true, true],
        ],
      },
    ]);
  });

  it('gives token ids and log-probabilities when asked to', async () => {
    const { steps } = await get('/v1/episodes/solved?tokens=1');
    expect(steps[0]).toMatchObject({ token_ids: [1, 2, 3], logprobs: [-0.5, -0.25, -1] });
  });

  it('shows what was judged of it', async () => {
    await at.db.query(
      `insert into facts.judged_methods (method_key, method, version, kind, params) values ('m', 'some_filter', 1, 'filter', '{}');
       insert into facts.verdicts values ('solved', '', 'm', false, 'because', null);
       insert into facts.credits values ('solved', 'solved-c1/0', 'm', 0.5, null);
       insert into facts.scores values ('e/solved', 'm', 2, null, null)`,
    );
    expect(await get('/v1/episodes/solved')).toMatchObject({
      verdicts: [{ method: 'some_filter', keep: false, reason: 'because', step_id: null }],
      credits: [{ step_id: 'solved-c1/0', value: 0.5 }],
      scores: [{ value: 2 }],
      conversation: [
        {},
        { candidates: [{ step_id: 'solved-c1/0', credits: [{ method: 'some_filter', value: 0.5 }] }] },
        {},
        { candidates: [{ credits: [] }, { credits: [] }] },
      ],
    });
  });

  it.each(['/v1/episodes/nobody', '/v1/datasets/nothing'])('answers 404 for %s', async (url) => {
    const answer = await at.app.inject(url);
    expect([answer.statusCode, answer.json().code]).toEqual([404, 'not_found']);
  });
});

describe('checkpoints, releases, jobs, datasets, rounds', () => {
  it('read what was recorded about training, in order', async () => {
    const saved = (id: string, n: number, metrics: object) =>
      event(
        'checkpoint.saved',
        { checkpoint_id: id, policy: 'team', kept: true, metrics: { ...metrics } },
        { time: hour(n) },
      );
    const released = (id: string, n: number, policies: Record<string, string>, metrics: object) =>
      event(
        'policy.released',
        { release_id: id, policies, reason: `round ${id}`, by: 'demo', metrics: { ...metrics } },
        { time: hour(n) },
      );
    await say(
      saved('c1', 1, { loss: 2 }),
      saved('c2', 3, { loss: 1, per_role: { coder: 0.5 }, note: 'text' }),
      released('r1', 2, { team: 'c1' }, { pass_at_1: 0.4 }),
      released('r2', 4, { team: 'c2', critic: 'c9' }, { pass_at_1: 0.6, verifier_precision: 0.5 }),
      event('job.requested', { job_id: 'j1', kind: 'sft' }, { time: hour(1) }),
      event('job.finished', { job_id: 'j1', outcome: 'done' }, { time: hour(2) }),
      event('job.requested', { job_id: 'j2', kind: 'rl' }, { time: hour(3) }),
    );
    const { items } = await get('/v1/rounds');
    expect(items).toMatchObject([
      { round: 0, release_id: 'r1', name: 'round r1', by: 'demo', policies: { team: 'c1' } },
      { round: 1, release_id: 'r2', policies: { team: 'c2', critic: 'c9' } },
    ]);
    expect(items.map(({ metrics, training }: { metrics: object; training: object }) => [metrics, training])).toEqual([
      [{ pass_at_1: 0.4 }, { loss: 2 }],
      [
        { pass_at_1: 0.6, verifier_precision: 0.5 },
        { loss: 1, 'per_role.coder': 0.5 },
      ],
    ]);
    expect(
      (await get('/v1/rounds?policy=critic')).items.map(({ release_id }: { release_id: string }) => release_id),
    ).toEqual(['r2']);
    expect((await get('/v1/releases')).items.map(({ release_id }: { release_id: string }) => release_id)).toEqual([
      'r2',
      'r1',
    ]);
    expect((await get('/v1/checkpoints?policy=team&limit=1')).items).toMatchObject([
      { checkpoint_id: 'c2', metrics: { note: 'text' } },
    ]);
    expect((await get('/v1/jobs')).items).toMatchObject([
      { job_id: 'j2', state: 'requested' },
      { job_id: 'j1', state: 'finished', outcome: 'done' },
    ]);
    expect((await get('/v1/jobs?kind=sft')).items).toHaveLength(1);
    expect(await get('/v1/datasets')).toEqual({ items: [], total: 0, next: null, others: [] });
  });
});

it('lineage of a step names its episode, an id with a / is written %2F, and an unknown id is refused with what to do', async () => {
  const { found } = await get('/v1/lineage/solved-c2%2F0?depth=1');
  expect(found).toMatchObject([
    { kind: 'step', id: 'solved-c2/0', comes_from: { children: [{ kind: 'episode', id: 'solved' }], left_out: 0 } },
  ]);
  const unknown = await at.app.inject('/v1/lineage/nobody');
  expect([unknown.statusCode, unknown.json()]).toMatchObject([404, { code: 'not_found' }]);
  expect((await at.app.inject('/v1/lineage/solved?depth=0')).statusCode).toBe(400);
});

describe('the filter of other lists', () => {
  it('reads the fields of the list that it filters', async () => {
    const list = async (path: string, filter: string, more = '') => {
      const answer = await at.app.inject(`/v1/${path}?filter=${encodeURIComponent(filter)}${more}`);
      return [answer.statusCode, answer.json().items?.length ?? answer.json().detail];
    };
    await say(
      event('policy.released', { release_id: 'by-hand', policies: { p: 'c1' }, by: 'someone', reason: 'because' }),
      ...[1, 2].map((step) => event('checkpoint.saved', { checkpoint_id: `filtered-${step}`, policy: 'p', step })),
    );
    expect(await list('releases', 'by = someone and reason is not null')).toEqual([200, 1]);
    expect(await list('checkpoints', 'policy = p and step > 1', '&all=true')).toEqual([200, 1]);
    expect(await list('jobs', "kind = train and state in (running, 'requested')")).toEqual([200, 0]);
    expect(await list('datasets', 'frozen_at > 2026-01-01T00:00:00Z')).toEqual([200, 0]);
    const warnings = async (path: string) => (await get(path)).warnings;
    const misspelt = ['Nothing has policy = "q". Did you mean p?'];
    expect(await warnings('/v1/checkpoints?filter=policy%20=%20q')).toEqual(misspelt);
    expect(await warnings('/v1/checkpoints?policy=q')).toEqual(misspelt);
    expect(await warnings('/v1/releases?filter=by%20!=%20somone')).toEqual([
      'Nothing has by = "somone". Did you mean someone?',
    ]);
    expect(await list('checkpoints', 'reward > 1')).toEqual([400, expect.stringContaining('no field "reward"')]);
  });
});
