/**
 * `recorded/atif` is what Terminus 2 of Harbor 0.26.0 wrote, at a terminal of made-up screens, with a scripted model server that billed
 * 10 + n tokens in and 3 out for its nth answer and gave its token ids; the texts of the program were replaced. Its context is summarised
 * by three sub-agents once: in `summarised` the run goes on in its document, in `continued` (`linear_history`) in another one. `claude-code`
 * is what Harbor's converter makes of `recorded/claude-code`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { formatNamed } from '../../../ingest/formats/catalogue.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const agentStep = (step_id: number, more: object = {}) => ({
  step_id,
  source: 'agent',
  message: `said ${step_id}`,
  ...more,
});
const trajectory = (steps: object[], more: object = {}) => ({
  schema_version: 'ATIF-v1.7',
  session_id: 's-1',
  trajectory_id: 's-1/main',
  agent: { name: 'lead', version: '1', model_name: 'm1', extra: { k: 1 } },
  steps,
  ...more,
});
const asked = { step_id: 1, source: 'user', message: 'How long?', timestamp: '2026-09-10T10:00:00Z' };
const call = { tool_call_id: 'c', function_name: 'calc', arguments: { x: 1 }, extra: { why: 'sum' } };

const path = (name: string): string => join(import.meta.dirname, 'recorded/atif', `${name}.jsonl`);
const documents = (name: string): Data[] =>
  readFileSync(path(name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Data);

describe('What Terminus 2 writes', () => {
  it.each(['summarised', 'continued'])('%s is a run and its three sub-agents, each call as billed', async (name) => {
    const memory = memoryLog();
    expect(await importFiles([path(name)], memory)).toMatchObject({
      ...{ format: 'atif', episodes: 4, tasks: 4, agents: 4, calls: 8, tool_calls: 5, errors: [] },
    });
    const calls = memory.events.flatMap(({ name, data }) => (name === 'generation.completed' ? [data as Data] : []));
    const first = name === 'summarised' ? 1 : 9;
    expect(calls.map(({ usage }) => (usage as { prompt_tokens: number }).prompt_tokens).sort()).toEqual(
      calls.map((_, i) => 10 + first + i),
    );
    for (const { usage, choices, prompt_token_ids: prompt } of calls) {
      const n = (usage as { prompt_tokens: number }).prompt_tokens - 10;
      expect(prompt).toEqual([n, n + 1]);
      expect(choices).toMatchObject([
        { token_ids: [100 * n, 100 * n + 1, 100 * n + 2], logprobs: [-0.25, -0.5, -0.75] },
      ]);
    }
    expect((await importFiles([path(name)], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('is one run where it goes on in another document, which begins with what it copied and has the totals of both', () => {
    const run = documents('continued')
      .map((document) => read('atif', document))
      .filter(({ of }) => of('episode.started')[0]!.session_id === 'run-linear');
    expect(run.map(({ of }) => of('generation.completed').length).sort()).toEqual([2, 3]);
    const [last, before] = run.toSorted((a, b) =>
      a.times('episode.finished')[0]! < b.times('episode.finished')[0]! ? 1 : -1,
    );
    expect(last!.of('episode.finished')).toMatchObject([{ totals: { total_prompt_tokens: 180 } }]);
    expect(before!.of('episode.finished')).toMatchObject([{ totals: { total_prompt_tokens: 39 } }]);
    const other = { ...documents('continued')[0]!, agent: { name: 'other', version: '1' } };
    expect(read('atif', other).of('episode.started')).toMatchObject([{ episode_id: 'run-linear-cont-1' }]);
  });

  it('does not say what a call was shown after the context was replaced', () => {
    const { of } = read('atif', documents('summarised')[0]!);
    expect(of('generation.requested').map(({ input }) => (input as object[] | undefined)?.length)).toEqual([
      ...[1, 3, undefined, undefined, undefined],
    ]);
  });

  it('and what Harbor makes of a session of Claude Code has the sub-agents, each with what it was shown, and errors of tools', async () => {
    expect(await importFiles([path('claude-code')], memoryLog())).toMatchObject({
      ...{ format: 'atif', episodes: 2, tasks: 2, agents: 3, calls: 11, tool_calls: 8, errors: [] },
    });
    const [team, second] = documents('claude-code').map((document) => read('atif', document));
    const [bern, rome] = ['a460b889c697c886b', 'a06e09f9d58deb48d'];
    expect(team!.of('agent.defined').map(({ agent_id, parent_agent_id: parent }) => [agent_id, parent])).toEqual([
      ['claude-code', undefined],
      [bern, 'claude-code'],
      [rome, 'claude-code'],
    ]);
    const calls = team!.of('generation.completed').map(({ agent_id, usage }, i) => {
      const { prompt_tokens: input, completion_tokens: output } = usage as Data;
      const shown = team!.of('generation.requested')[i]!.input as { role: string }[];
      return [agent_id, input, output, shown.map(({ role }) => role)];
    });
    // Beside the 10 + n tokens in, 2 were read from the cache and 1 written to it.
    expect(calls).toEqual([
      ['claude-code', 14, 3, ['user']],
      [bern, 15, 6, ['user']],
      [rome, 16, 9, ['user']],
      [bern, 17, 12, ['user', 'assistant', 'tool']],
      [rome, 18, 15, ['user', 'assistant', 'tool']],
      ['claude-code', 19, 18, ['user', 'assistant', 'tool', 'tool']],
      ['claude-code', 20, 21, ['user', 'assistant', 'tool', 'tool', 'assistant', 'tool']],
    ]);
    const statuses = [team!, second!].map(({ of }) => of('tool.returned').map(({ status }) => status));
    expect(statuses).toEqual([
      ['ok', 'ok', 'ok', 'ok', 'error'],
      ['ok', 'error', 'ok'],
    ]);
    // Claude Code wrote one answer itself, of the model `<synthetic>`.
    expect(second!.of('generation.completed')).toHaveLength(4);
    const unnamed = documents('claude-code')[0]!;
    const steps = (unnamed.steps as Data[]).map(({ extra, ...step }) => ({
      ...step,
      extra: { is_sidechain: (extra as Data).is_sidechain },
    }));
    const early = read('atif', { ...unnamed, steps });
    expect(early.of('generation.requested').map(({ agent_id, input }) => [agent_id, input === undefined])).toEqual(
      calls.map(([agent]) => (agent === 'claude-code' ? [agent, false] : ['claude-code/sidechain', true])),
    );
  });

  it('and a session of Claude Code beside what Harbor made of it is recorded once, the other form refused', async () => {
    const session = join(import.meta.dirname, 'recorded/claude-code');
    const calls = (memory: ReturnType<typeof memoryLog>) =>
      memory.events.filter(({ name }) => name === 'generation.completed').map(({ source }) => source);
    const alone = memoryLog();
    await importFiles([session], alone);
    const together = memoryLog();
    const report = await importFiles([path('claude-code'), session], together);
    expect(report.errors.map(({ code, got }) => [code, got])).toEqual(
      documents('claude-code').map(({ session_id }) => ['id_conflict', `${session_id}, recorded from claude-code`]),
    );
    expect(calls(together)).toEqual(calls(alone));
    const first = memoryLog();
    const { calls: converted } = await importFiles([path('claude-code')], first);
    const later = await importFiles([session], first);
    expect(later.errors.map(({ code }) => code)).toContain('id_conflict');
    expect(calls(first)).toEqual(Array(converted).fill('/import/atif'));
  });

  it.each(['summarised', 'continued', 'claude-code'])('%s is exported equal, document by document', (name) => {
    for (const document of documents(name)) {
      const { drafts, of } = read('atif', document);
      expect(of('episode.started')[0]).not.toHaveProperty('unmapped');
      expect(canonicalJson(formatNamed('atif')!.write!(drafts))).toBe(canonicalJson([document]));
    }
  });
});

describe('What Harbor made of Claude Code before it kept an answer whole', () => {
  const usage = { prompt_tokens: 20, completion_tokens: 6, extra: { cache_creation_input_tokens: 3 } };
  const asks = (id: string, failed = false) => ({
    message: `Executed look ${id}`,
    tool_calls: [{ tool_call_id: id, function_name: 'look', arguments: {} }],
    observation: { results: [{ source_call_id: id, content: `seen by ${id}` }] },
    extra: { is_sidechain: false, tool_result_is_error: failed },
  });
  const says = { message: 'I look twice.', extra: { is_sidechain: false } };
  const ends = { message: 'Done.', metrics: { ...usage, prompt_tokens: 30 }, extra: { is_sidechain: false } };

  it.each([
    ['with the usage of the answer at each of its blocks', usage],
    ['with the usage at the first block alone', undefined],
  ])('%s is one call for each answer, without words of the converter', (_, again) => {
    const document = trajectory([
      asked,
      agentStep(2, { ...says, metrics: usage }),
      agentStep(3, { ...asks('a'), ...(again ? { metrics: again } : {}) }),
      agentStep(4, { ...asks('b', true), ...(again ? { metrics: again } : {}) }),
      agentStep(5, ends),
    ]);
    const { of, drafts, refused } = read('atif', document);
    expect(refused).toEqual([]);
    const calls = of('generation.completed');
    expect(calls.map(({ usage: of }) => (of as Data).prompt_tokens)).toEqual([20, 30]);
    expect(JSON.stringify(calls)).not.toContain('Executed');
    expect(JSON.stringify(calls[0]!.choices)).toContain('I look twice.');
    expect(of('tool.called').map(({ call_id, name }) => [call_id, name])).toEqual([
      [calls[0]!.call_id, 'look'],
      [calls[0]!.call_id, 'look'],
    ]);
    expect(of('tool.returned').map(({ output, status }) => [output, status])).toEqual([
      ['seen by a', 'ok'],
      ['seen by b', 'error'],
    ]);
    expect(canonicalJson(formatNamed('atif')!.write!(drafts))).toBe(canonicalJson([document]));
  });

  it('keeps two answers of equal usage apart where a step is a whole answer', () => {
    const document = trajectory([
      asked,
      agentStep(2, { ...asks('a'), message: '', metrics: usage }),
      agentStep(3, { ...asks('b'), message: '', metrics: usage }),
    ]);
    expect(read('atif', document).of('generation.completed')).toHaveLength(2);
  });
});

describe('a trajectory of ATIF', () => {
  it('is recognised in every minor version, and another major version is refused', () => {
    for (const version of ['ATIF-v1.0', 'ATIF-v1.4', 'ATIF-v1.8']) {
      const document = trajectory([asked], { schema_version: version });
      expect(known(document)).toBe('atif');
      expect(read('atif', document).refused).toEqual([]);
    }
    expect(read('atif', trajectory([asked], { schema_version: 'ATIF-v2.0' })).refused).toEqual([
      'bad_shape schema_version',
    ]);
  });

  it('makes a step of an agent one call with the steps before it as input, and keeps tokens beside the text', () => {
    const metrics = {
      prompt_tokens: 9,
      prompt_token_ids: [1, 2],
      completion_token_ids: [7, 8],
      logprobs: [-0.5, -0.25],
      extra: { reward: 0.5 },
    };
    const { of } = read(
      'atif',
      trajectory([asked, agentStep(2, { reasoning_content: 'hm', metrics, model_name: 'm2' }), agentStep(3)]),
    );
    expect(of('generation.completed')[0]).toMatchObject({
      call_id: 's-1/main/2',
      agent_id: 'lead',
      response_model: 'm2',
      prompt_token_ids: [1, 2],
      usage: { prompt_tokens: 9 },
      choices: [
        {
          token_ids: [7, 8],
          logprobs: [-0.5, -0.25],
          content: [
            { type: 'reasoning', content: 'hm' },
            { type: 'text', content: 'said 2' },
          ],
        },
      ],
    });
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([1, 2]);
    expect(of('episode.started')[0]).toMatchObject({ episode_id: 's-1', session_id: 's-1', flags: [] });
    expect(of('feedback.recorded')).toMatchObject([
      { name: 'reward', value: 0.5, target: { kind: 'step', id: 's-1/main/2/0' } },
    ]);
  });

  it('says where no call has token ids, and does not take log-probabilities that are not one a token', () => {
    const odd = { completion_token_ids: [7], logprobs: [-0.5, -0.25] };
    const { of } = read('atif', trajectory([asked, agentStep(2, { metrics: odd })]));
    expect(of('generation.completed')[0]).toMatchObject({
      flags: ['logprobs_mismatch'],
      unmapped: { metrics: { logprobs: [-0.5, -0.25] } },
    });
    expect(read('atif', trajectory([asked, agentStep(2)])).of('episode.started')[0]!.flags).toEqual(['no_token_ids']);
  });

  it('takes a delegation in code as a tool call without a model call, and a sub-agent as a member of the run', () => {
    const child = {
      ...trajectory([asked, agentStep(2)]),
      trajectory_id: 's-1/helper',
      agent: { name: 'helper', version: '1' },
    };
    const reference = { trajectory_id: 's-1/helper', session_id: 's-1' };
    const observation = { results: [{ source_call_id: 'c', subagent_trajectory_ref: [reference] }] };
    const lead = agentStep(2, { message: '', llm_call_count: 0, tool_calls: [call], observation });
    const { of, refused } = read('atif', trajectory([asked, lead, agentStep(3)], { subagent_trajectories: [child] }));
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['helper', 'lead']);
    expect(of('tool.called')).toMatchObject([{ tool_call_id: 's-1/main/c', name: 'calc', arguments: { x: 1 } }]);
    expect(of('control.transferred')).toMatchObject([{ from_agent: 'lead', to_agent: 'helper', kind: 'delegate' }]);
    expect(of('agent.defined').map((data) => [data.agent_id, data.parent_agent_id])).toEqual([
      ['lead', undefined],
      ['helper', 'lead'],
    ]);
  });

  it('without steps is kept and flagged incomplete', () => {
    expect(read('atif', trajectory([])).of('episode.started')).toMatchObject([
      { flags: ['no_token_ids', 'incomplete'] },
    ]);
  });

  it('does not count copied context as work of the model', () => {
    const copied = agentStep(2, {
      is_copied_context: true,
      tool_calls: [call],
      observation: { results: [{ source_call_id: 'c', content: '2' }] },
    });
    const { of } = read('atif', trajectory([asked, copied, agentStep(3)]));
    expect([of('generation.completed').length, of('tool.called').length]).toEqual([1, 0]);
    expect(of('message.sent')[1]).toMatchObject({ from: 'lead', flags: ['copied_context'] });
    expect(of('generation.requested')[0]!.input).toHaveLength(3);
  });

  it('pairs results with calls whose native id repeats, and keeps results that answer none', () => {
    const results = {
      results: [{ source_call_id: 'c', content: 'two' }, { content: [{ type: 'text', text: 'shell' }] }],
    };
    const step = (id: number) => agentStep(id, { tool_calls: [call], observation: results });
    const { of } = read('atif', trajectory([asked, step(2), step(3)]));
    expect(of('tool.called').map(({ tool_call_id }) => tool_call_id)).toEqual(['s-1/main/c', 's-1/main/c#2']);
    expect(of('tool.returned').map(({ tool_call_id }) => tool_call_id)).toEqual(['s-1/main/c', 's-1/main/c#2']);
    expect(of('environment.observed')[0]).toMatchObject({ kind: 'output', call_id: 's-1/main/2' });
  });

  it('takes the one result of a step for that of its one call, where the writer names none', () => {
    const observation = { results: [{ content: 'root@box:~#' }] };
    const { of } = read(
      'atif',
      trajectory([asked, agentStep(2, { tool_calls: [call], observation }), agentStep(3, { message: 'Done.' })]),
    );
    expect(of('tool.returned').map(({ tool_call_id, output }) => [tool_call_id, output])).toEqual([
      [of('tool.called')[0]!.tool_call_id, 'root@box:~#'],
    ]);
    expect(of('generation.requested')[1]!.input).toMatchObject([{}, {}, { role: 'tool', tool_call_id: 'c' }]);
    const two = [call, { ...call, tool_call_id: 'd' }];
    const both = read('atif', trajectory([asked, agentStep(2, { tool_calls: two, observation })]));
    expect([both.of('tool.returned'), both.of('environment.observed')]).toMatchObject([[], [{ kind: 'output' }]]);
  });

  it('is refused where a step of the program has an observation that is none', () => {
    const refusedWith = (observation: unknown) =>
      read('atif', trajectory([asked, { step_id: 2, source: 'system', message: 'x', observation }])).refused;
    expect(refusedWith({ results: 'none' })).toEqual(['bad_type steps[1].observation']);
    expect(refusedWith({ results: [null] })).toEqual(['bad_type steps[1].observation.results[0]']);
  });

  it('hands over to trajectories of other files in a step of the program too', () => {
    const reference = { session_id: 's-1-summary', trajectory_path: 'trajectory.summary.json' };
    const results = [{ subagent_trajectory_ref: [reference] }];
    const { of } = read(
      'atif',
      trajectory([asked, { step_id: 2, source: 'system', message: 'Summarised.', observation: { results } }]),
    );
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'lead', to_agent: 's-1-summary', kind: 'delegate', child_episode_id: 's-1-summary' },
    ]);
  });

  it('puts a document that goes on with another one of its session behind it', () => {
    const copied = { ...agentStep(1), is_copied_context: true };
    const seqOf = (...steps: object[]) => read('atif', trajectory(steps)).of('generation.completed')[0]!.seq as number;
    const first = seqOf(asked, agentStep(2));
    const next = seqOf(copied, agentStep(2, { timestamp: '2026-09-10T10:00:00Z' }));
    const last = seqOf(copied, agentStep(2, { timestamp: '2026-09-10T10:00:01Z' }));
    expect([next > first + 1e6, last - next]).toEqual([true, 1000]);
    expect(seqOf(copied, agentStep(2))).toBeGreaterThan(first + 1e5);
  });

  it('takes the reward where its users put it, and the task by its id or its text', () => {
    const extra = {
      final_metrics: { total_steps: 2, extra: { reward: 1 } },
      extra: { task_id: 't-1', ground_truth: '20' },
    };
    const { of } = read('atif', trajectory([asked, agentStep(2)], extra));
    expect(of('feedback.recorded')).toMatchObject([
      { kind: 'reward', value: 1, target: { kind: 'episode', id: 's-1' } },
    ]);
    expect(of('task.defined')).toMatchObject([{ task_id: 't-1', query: 'How long?', ground_truth: '20' }]);
    expect(read('atif', trajectory([asked])).of('task.defined')[0]!.task_id).toMatch(/^text\//);
  });

  it('knows a time only where its zone is known', () => {
    const steps = ['2026-09-10T10:00:00+02:00', '2026-09-10T10:00:00', 'noon'].map((timestamp, i) =>
      agentStep(i + 1, { timestamp }),
    );
    expect(read('atif', trajectory(steps)).times('generation.completed')).toEqual([
      '2026-09-10T10:00:00+02:00',
      null,
      null,
    ]);
  });

  it('is refused by every rule it breaks, each by its field', () => {
    const refusedOf = (...steps: object[]) => read('atif', trajectory(steps)).refused;
    expect(refusedOf({ ...asked, metrics: {} }, agentStep(4))).toEqual([
      'bad_shape steps[0].metrics',
      'bad_shape steps[1].step_id',
    ]);
    expect(refusedOf(asked, agentStep(2, { tool_calls: [{ ...call, arguments: '{}' }] }))).toEqual([
      'bad_type steps[1].tool_calls[0].arguments',
    ]);
    const ghost = { results: [{ source_call_id: 'ghost', content: '?' }] };
    expect(refusedOf(asked, agentStep(2, { tool_calls: [call], observation: ghost }))).toEqual([
      'bad_reference steps[1].observation.results[0].source_call_id',
    ]);
    expect(refusedOf({ ...asked, source: 'robot' }, { step_id: 2, source: 'agent' })).toEqual([
      'bad_type steps[0].source',
      'bad_type steps[1].message',
    ]);
    expect(read('atif', { schema_version: 'ATIF-v1.7', steps: {} }).refused).toEqual([
      'bad_type agent',
      'bad_type steps',
    ]);
  });

  it('gives a later export of a run that has grown ids of its own where something changed, and the same elsewhere', () => {
    const ids = (document: object) => new Set(read('atif', document).drafts.map((draft) => draft.id));
    const [short, long] = [
      ids(trajectory([asked, agentStep(2)])),
      ids(trajectory([asked, agentStep(2), agentStep(3)])),
    ];
    expect([...short].filter((id) => !long.has(id)).length).toBe(2);
  });
});

const text = fc.constantFrom('', 'plan', 'naïve ☃', '\u0000', '\ud800', '{"x":1}');
const parts = fc.constantFrom(
  [{ type: 'text', text: 'a' }],
  [
    { type: 'image', source: { media_type: 'image/png', path: 'a.png' } },
    { type: 'text', text: 'b' },
  ],
);
const anyStep = fc.record(
  {
    source: fc.constantFrom('user', 'system', 'agent'),
    message: fc.oneof(text, parts),
    timestamp: fc.constantFrom('2026-09-10T10:00:00Z', '2026-09-10 10:00:00.5', null),
    extra: fc.constant({ note: 1 }),
    reasoning_content: fc.oneof(text, fc.constant(null)),
    model_name: fc.constantFrom('m1', null),
    reasoning_effort: fc.constantFrom('high', 0.5),
    llm_call_count: fc.constantFrom(0, 1, 2, null),
    is_copied_context: fc.boolean(),
    calls: fc.array(fc.constantFrom('a', 'b'), { maxLength: 3 }),
    answers: fc.option(fc.array(fc.constantFrom('a', 'b', 'none', 'ref', 'parts'), { maxLength: 3 })),
    metrics: fc.option(
      fc.record(
        {
          prompt_tokens: fc.nat(99),
          prompt_token_ids: fc.array(fc.nat(99), { maxLength: 2 }),
          completion_token_ids: fc.array(fc.nat(99), { maxLength: 2 }),
          logprobs: fc.array(fc.double({ min: -9, max: 0, noNaN: true }), { maxLength: 2 }),
          extra: fc.constant({ a: 1 }),
        },
        { requiredKeys: [] },
      ),
    ),
  },
  { requiredKeys: ['source', 'message'] },
);

function legal(step: Data, i: number): Data {
  const { calls, answers, ...rest } = step as Data & { calls?: string[]; answers?: string[] | null };
  const base = { ...rest, step_id: i + 1 };
  if (step.source !== 'agent') {
    for (const name of ['model_name', 'reasoning_effort', 'reasoning_content', 'metrics']) delete (base as Data)[name];
    return base;
  }
  const made = (calls ?? []).map((id) => ({ tool_call_id: id, function_name: 'f', arguments: { id } }));
  const results = (answers ?? []).flatMap((id): Data[] => {
    if (id === 'none') return [{ content: 'shell' }];
    if (id === 'ref') return [{ subagent_trajectory_ref: [{ trajectory_path: 'x.json', session_id: 'other' }] }];
    if (!calls?.includes(id)) return [{ content: null, extra: { id } }];
    return [{ source_call_id: id, content: id === 'a' ? 'one' : [{ type: 'text', text: 'two' }] }];
  });
  return { ...base, ...(calls ? { tool_calls: made } : {}), ...(answers ? { observation: { results } } : {}) };
}

const document = fc
  .record(
    {
      steps: fc.array(anyStep, { maxLength: 5 }),
      session_id: fc.constantFrom('s-1', null),
      trajectory_id: fc.constantFrom('t-1', 't-2'),
      notes: text,
      final_metrics: fc.constantFrom(null, { total_steps: 3, extra: { reward: 1 } }),
      extra: fc.constantFrom({ task_id: 'x' }, { other: true }),
      children: fc.array(fc.array(anyStep, { maxLength: 3 }), { maxLength: 2 }),
      tools: fc.option(fc.constant([{ name: 'f' }])),
    },
    { requiredKeys: ['steps'] },
  )
  .map(({ steps, children, tools, ...rest }) => ({
    schema_version: 'ATIF-v1.6',
    ...rest,
    agent: { name: 'lead', version: '1', ...(tools === undefined ? {} : { tool_definitions: tools }) },
    steps: steps.map((step, i) => legal(step, i)),
    ...(children
      ? {
          subagent_trajectories: children.map((own, i) => ({
            schema_version: 'ATIF-v1.6',
            agent: { name: `a${i}`, version: '2' },
            steps: own.map((step, k) => legal(step, k)),
          })),
        }
      : {}),
  }));

describe('ATIF to events to ATIF', () => {
  const write = formatNamed('atif').write!;

  it('gives every legal document back equal as JSON', () => {
    fc.assert(
      fc.property(document, (native) => {
        const record = JSON.parse(JSON.stringify(native));
        const { drafts, refused } = read('atif', record);
        expect(refused).toEqual([]);
        expect(canonicalJson(write(drafts.toReversed()))).toBe(canonicalJson([record]));
      }),
      { numRuns: 300 },
    );
  });

  it('builds an ordinary document from its events, without a copy of it', () => {
    const metrics = { prompt_tokens: 3, completion_token_ids: [1], logprobs: [-0.5] };
    const results = { results: [{ source_call_id: 'c', content: '2' }] };
    const native = trajectory([
      asked,
      agentStep(2, { tool_calls: [call], observation: results, metrics, llm_call_count: 1 }),
    ]);
    const { drafts, of } = read('atif', native);
    expect(of('episode.started')[0]!.unmapped).toBeUndefined();
    expect(canonicalJson(write(drafts))).toBe(canonicalJson([native]));
  });

  it('writes the episodes of other formats as documents that ATIF takes', () => {
    const row = {
      unique_trajectory_id: 'x-1',
      task_instruction: 'You add.',
      tools: [],
      conversation: [
        { role: 'user', content: 'How long?' },
        {
          role: 'assistant',
          content: '',
          tool_calls: [{ id: 'c', type: 'function', function: { name: 'calc', arguments: { x: 1 } } }],
        },
        { role: 'tool', tool_call_id: 'c', content: '2' },
        { role: 'assistant', content: 'Two.' },
      ],
    };
    const [single] = write(read('xlam', row).drafts) as [Data];
    expect(read('atif', single).refused).toEqual([]);
    expect((single.steps as Data[]).map(({ source }) => source)).toEqual(['system', 'user', 'agent', 'agent']);
    const team = {
      input: 'How long?',
      response: '20',
      label: '20',
      logs: [
        { module: 'Solver', content: '20' },
        { agent: 'evaluator', content: 'Score: True' },
      ],
    };
    const [several] = write(read('agentverse', team).drafts) as [Data];
    const { of, refused } = read('atif', several);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['Solver', 'evaluator']);
    expect(of('control.transferred')).toHaveLength(2);
    expect(write([])).toEqual([]);
  });

  it('writes version 1.8, with parts that it does not know beside their text', () => {
    const parts = [{ type: 'text', text: 'What is this?' }, IMAGE];
    const logs = {
      messages: [
        { role: 'user', content: parts },
        { role: 'assistant', content: 'A cat.' },
      ],
    };
    const [document] = write(read('openai-chat', logs).drafts) as [Data];
    expect(document.schema_version).toBe('ATIF-v1.8');
    expect((document.steps as Data[])[0]).toMatchObject({ message: 'What is this?', extra: { content: parts } });
  });

  it('gives back a document of version 1.8 with a recording in it', () => {
    const recording = { type: 'audio', source: { media_type: 'audio/wav', path: 'a.wav', duration_sec: 1.5 } };
    const withAudio = { ...asked, message: [{ type: 'text', text: 'Listen.' }, recording] };
    const native = trajectory([withAudio, agentStep(2, { llm_call_count: 1 })], { schema_version: 'ATIF-v1.8' });
    const { drafts, refused } = read('atif', native);
    expect(refused).toEqual([]);
    expect(canonicalJson(write(drafts))).toBe(canonicalJson([native]));
  });
});

const IMAGE = { type: 'image_url', image_url: { url: 'https://example.org/cat.png' } };
