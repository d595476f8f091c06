/** Given these events, then these rows: every table of facts, by itself. */
import { describe, expect, it } from 'vitest';
import type { EventData, EventName } from '../../../ingest/events/events.ts';
import { rowsOf, TABLES } from '../../../store/tables/catalogue.ts';
import { effective } from '../../../store/tables/effective.ts';
import { at, event } from '../support/events.ts';

const given = <N extends EventName>(name: N, data: EventData<N>, id: string = name) =>
  event(name, data, { id, time: at(1) });

/** What the tables hold of these events, without nulls and versions: the table, then each row. */
function rows(...events: readonly ReturnType<typeof event>[]) {
  const found = events.flatMap((one) => rowsOf(effective(one as never)));
  const shown: Record<string, object[]> = {};
  for (const [{ table, version }, list] of found)
    for (const row of list) {
      const held = Object.entries(row).filter(([name, value]) => value !== null && name !== version);
      shown[table] = [...(shown[table] ?? []), Object.fromEntries(held)];
    }
  return shown;
}

const TIME = '2026-09-10T10:00:01.000000Z';
const e = { episode_id: 'e' };
const long = 'long '.repeat(200);

describe('Given these events, then these rows', () => {
  it('tasks: a query in parts is text and content', () => {
    const query = [
      { type: 'text', content: 'What?' },
      { type: 'uri', uri: 'a.png' },
    ];
    expect(
      rows(given('task.defined', { task_id: 't', query, source: 'gsm8k', tags: { a: 1 }, unmapped: { b: 2 } })),
    ).toEqual({
      tasks: [{ task_id: 't', query: 'What?', content: query, origin: 'gsm8k', tags: { a: 1 }, unmapped: { b: 2 } }],
    });
  });

  it('teams', () => {
    expect(rows(given('team.defined', { team_id: 'x', name: 'Pair', edges: [['a', 'b']] }))).toEqual({
      teams: [{ team_id: 'x', name: 'Pair', edges: [['a', 'b']] }],
    });
  });

  it('episodes: the start, its task by itself, and the end, whose answer is the text of its final message', () => {
    expect(
      rows(
        given('episode.started', { ...e, task_id: 't', group_id: 'g', attempt: 0, raw: { artifact_id: 'r' } }),
        given('episode.finished', { ...e, outcome: 'success', final: 'forty-two' }),
      ),
    ).toEqual({
      episodes: [
        { ...e, started_group_id: 'g', attempt: 0, raw_artifact_id: 'r', started_at: TIME },
        { ...e, started_task_id: 't' },
        { ...e, outcome: 'success', answer: 'forty-two', final: 'forty-two', finished_at: TIME },
      ],
    });
  });

  it.each([
    [null, 0],
    [`text/${'0'.repeat(32)}`, 1],
    ['named', 2],
  ])('episodes: a task called %s has the rank %i', (task_id, rank) => {
    const found = rowsOf(effective(given('episode.started', { ...e, task_id }) as never));
    const [, [row]] = found.find(([{ version }]) => version === 'task_version')! as never as [
      null,
      [{ task_version: string }],
    ];
    expect(row.task_version).toBe(`${rank} ${TIME}|episode.started\u0001/test`);
  });

  it('agents: long instructions are named, and the body is kept once', () => {
    const { agents, 'troupe.bodies': bodies } = rows(
      given('agent.defined', { ...e, agent_id: 'a', role: 'solver', system_instructions: long }),
    );
    expect(agents).toEqual([
      { ...e, agent_id: 'a', role: 'solver', system_instructions: expect.stringMatching(/^\uFFFE#/) },
    ]);
    expect(bodies).toEqual([expect.objectContaining({ key: 'e/e', body: long })]);
  });

  it('agents: who calls, uses a tool or takes over has a row without having been defined; nobody has none', () => {
    const found = rows(
      given('generation.requested', { ...e, call_id: 'c', agent_id: 'caller' }),
      given('generation.completed', { ...e, call_id: 'c', choices: [] }),
      given('tool.called', { ...e, tool_call_id: 't', name: 'calc', agent_id: 'user of tools' }),
      given('control.transferred', { ...e, kind: 'handoff', from_agent: 'caller', to_agent: 'next' }),
    );
    expect(found.agents).toEqual(['caller', 'user of tools', 'next'].map((agent_id) => ({ ...e, agent_id })));
  });

  it('calls: what was asked, and the context as the name of its last message', () => {
    const input = [{ role: 'user', content: 'What?' }];
    const { calls, 'troupe.bodies': bodies } = rows(
      given('generation.requested', { ...e, call_id: 'c', turn: 0, role: 'solver', model: 'm', seq: 3, input }),
    );
    expect(calls).toEqual([
      {
        ...{ ...e, call_id: 'c', requested_turn: 0, requested_role: 'solver', model: 'm', requested_seq: 3 },
        ...{ requested_at: TIME, context: (bodies![0] as { hash: string }).hash },
      },
    ]);
  });

  it.each([
    [
      { prompt_tokens: 7, completion_tokens: 0 },
      { input_tokens: 7, output_tokens: 0 },
    ],
    [{ input_tokens: 5, prompt_tokens: 7 }, { input_tokens: 5 }],
    [{ input_tokens: 'five' }, {}],
  ])('calls: of a usage %j the counts are %j; what is not said stays unknown', (usage, counts) => {
    expect(rows(given('generation.completed', { ...e, call_id: 'c', choices: [], usage })).calls).toEqual([
      { ...e, call_id: 'c', completed_at: TIME, usage, ...counts },
    ]);
  });

  it('steps: one for each choice, its log-probabilities as 32-bit floats take them', () => {
    const choices = [
      { index: 0, content: 'yes', logprobs: [-0.5, 1e-60], token_ids: [1, 2], chosen: true },
      { index: 1, content: [{ type: 'text', content: 'no' }], finish_reason: 'stop' },
    ];
    expect(rows(given('generation.completed', { ...e, call_id: 'c', choices })).steps).toEqual([
      { ...e, call_id: 'c', candidate: 0, text: 'yes', logprobs: [-0.5, 0], token_ids: [1, 2], chosen: true },
      { ...e, call_id: 'c', candidate: 1, text: 'no', content: choices[1]!.content, finish_reason: 'stop' },
    ]);
  });

  it('messages', () => {
    const data = { ...e, message_id: 'm', from: 'a', to: ['b'], content: 'hello', turn: 2 };
    expect(rows(given('message.sent', data))).toEqual({
      messages: [{ ...e, message_id: 'm', sender: 'a', receivers: ['b'], text: 'hello', turn: 2, sent_at: TIME }],
    });
  });

  it('tool_calls: the call and its result have columns each', () => {
    expect(
      rows(
        given('tool.called', { ...e, tool_call_id: 't', name: 'calc', index: 1, arguments_raw: '{"x":6}', seq: 4 }),
        given('tool.returned', { ...e, tool_call_id: 't', status: 'ok', output: 0, seq: 5, flags: ['late'] }),
      ).tool_calls,
    ).toEqual([
      { ...e, tool_call_id: 't', name: 'calc', tool_index: 1, arguments_raw: '{"x":6}', seq: 4, called_at: TIME },
      {
        ...e,
        tool_call_id: 't',
        status: 'ok',
        output: 0,
        returned_seq: 5,
        returned_flags: ['late'],
        returned_at: TIME,
      },
    ]);
  });

  it('decisions: a hand-over is one, by whom it is from', () => {
    expect(
      rows(
        given('decision.made', { ...e, kind: 'vote', by: 'judge', decision: { for: 'a' } }),
        given('control.transferred', { ...e, kind: 'handoff', from_agent: 'a', to_agent: 'b', reason: 'done' }),
      ).decisions,
    ).toEqual([
      {
        ...{ ...e, event_source: '/test', event_id: 'decision.made', author: 'judge', kind: 'vote' },
        ...{ decision: { for: 'a' }, occurred_at: TIME },
      },
      {
        ...{ ...e, event_source: '/test', event_id: 'control.transferred', author: 'a', kind: 'handoff' },
        ...{ decision: { to_agent: 'b', reason: 'done' }, occurred_at: TIME },
      },
    ]);
  });

  it('observations', () => {
    expect(rows(given('environment.observed', { ...e, kind: 'state', state: { door: 'open' }, turn: 0 }))).toEqual({
      observations: [
        {
          ...{ ...e, event_source: '/test', event_id: 'environment.observed', kind: 'state' },
          ...{ state: { door: 'open' }, turn: 0, occurred_at: TIME },
        },
      ],
    });
  });

  it.each([
    [true, { value: 1, value_json: true }],
    [0, { value: 0, value_json: 0 }],
    ['good', { label: 'good', value_json: 'good' }],
    [null, {}],
  ])('feedback: a value of %j is %j', (value, held) => {
    const target = { kind: 'episode', episode_id: 'e' } as const;
    expect(
      rows(given('feedback.recorded', { feedback_id: 'f', target, kind: 'score', name: 's', value })).feedback,
    ).toEqual([
      {
        ...{ key: 'e/e', feedback_id: 'f', ...e, target_kind: 'episode', target_id: 'e', kind: 'score', name: 's' },
        ...{ occurred_at: TIME, ...held },
      },
    ]);
  });

  it('feedback: for a foreign id it has no episode yet', () => {
    const target = { kind: 'foreign', id: 'trace-1' } as const;
    expect(
      rows(given('feedback.recorded', { feedback_id: 'f', target, kind: 'score', name: 's', value: 1 })).feedback,
    ).toEqual([expect.not.objectContaining({ episode_id: expect.anything() })]);
  });

  it('artifacts, datasets and dataset_rows: candidates of one call follow each other, and a row may name its place', () => {
    const data = {
      artifact_id: 'd',
      role: 'dataset',
      name: 'set',
      rows: {
        train: [
          ['e', 'c', [0, 2]],
          ['e', null, [null]],
          ['f', 'c', [1], 9],
          ['g', 'c', [0]],
        ],
      },
    };
    const found = rows(given('artifact.attached', data as never));
    expect(found.artifacts).toEqual([expect.objectContaining({ artifact_id: 'd', role: 'dataset', name: 'set' })]);
    expect(found.datasets).toEqual([{ dataset_id: 'd', name: 'set', frozen_at: TIME }]);
    expect(found.dataset_rows).toEqual([
      { dataset_id: 'd', split: 'train', row: 0, episode_id: 'e', call_id: 'c', candidates: [0, 2] },
      { dataset_id: 'd', split: 'train', row: 2, episode_id: 'e', candidates: [null] },
      { dataset_id: 'd', split: 'train', row: 9, episode_id: 'f', call_id: 'c', candidates: [1] },
      { dataset_id: 'd', split: 'train', row: 10, episode_id: 'g', call_id: 'c', candidates: [0] },
    ]);
  });

  it('jobs and job_metrics: one that is requested again has not ended; what is no number is no metric', () => {
    const found = rows(
      given('job.requested', { job_id: 'j', kind: 'train', spec: { a: 1 }, again: true }),
      given('job.started', { job_id: 'j', worker: 'w', token: 2 }),
      given('job.progressed', { job_id: 'j', step: 0, metrics: { loss: 0, text: 'x' } }),
      given('job.finished', { job_id: 'j', outcome: 'done' }),
    );
    expect(found).toEqual({
      jobs: [
        { job_id: 'j', kind: 'train', spec: { a: 1 }, requested_at: TIME },
        { job_id: 'j' },
        { job_id: 'j', worker: 'w', token: 2, started_at: TIME },
        { job_id: 'j', outcome: 'done', finished_at: TIME },
      ],
      job_metrics: [{ job_id: 'j', step: 0, name: 'loss', value: 0, occurred_at: TIME }],
    });
  });

  it('checkpoints, releases and judgings', () => {
    expect(
      rows(
        given('checkpoint.saved', { checkpoint_id: 'c', policy: 'p', step: 0, kept: false }),
        given('policy.released', { release_id: 'r', policies: { p: 'c' }, by: 'me' }),
        given('judge.completed', { judge_id: 'j', methods: [], episodes: ['e'] } as never),
      ),
    ).toEqual({
      checkpoints: [{ checkpoint_id: 'c', policy: 'p', step: 0, kept: false, saved_at: TIME }],
      releases: [{ release_id: 'r', policies: { p: 'c' }, author: 'me', released_at: TIME }],
      judgings: [{ judge_id: 'j', methods: [], episodes: ['e'], judged_at: TIME }],
    });
  });

  it('no table that events write is left out here', () => {
    const named = ['agents', 'artifacts', 'calls', 'checkpoints', 'dataset_rows', 'datasets', 'decisions', 'episodes'];
    named.push('feedback', 'job_metrics', 'jobs', 'judgings', 'messages', 'observations', 'releases', 'steps');
    named.push('tasks', 'teams', 'tool_calls');
    expect(TABLES.flatMap(({ name, groups }) => (groups.length > 0 ? [name] : [])).sort()).toEqual(named);
  });
});
