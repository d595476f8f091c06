import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { formatNamed, recognise } from '../../../ingest/formats/catalogue.ts';
import { memoryLog } from '../support/memory-log.ts';
import { known, read } from './support/convert.ts';

let count = 0;
const event = (type: string, event_data: object, more: object = {}) => {
  count += 1;
  return {
    event_id: `e${count}`,
    timestamp: '2026-09-10T10:00:00Z',
    type,
    event_data,
    emission_sequence: count,
    parent_event_id: null,
    ...more,
  };
};
const batch = (...events: unknown[]) => ({ version: '1', batch_id: 'b-1', user_context: { session_id: 's' }, events });
const BY = { agent_role: 'Senior Solver\n' };
const STARTED = event('crew_kickoff_started', { inputs: { task: 'How long?', task_id: 't-1' } });
const AGENT = event('agent_execution_started', { ...BY, agent_goal: 'Solve.', agent_backstory: 'Old.' });
const ASKED = event('llm_call_started', {
  ...BY,
  call_id: 'c',
  model: 'm1',
  messages: [{ role: 'user', content: 'q' }],
  temperature: 0.5,
});
const ANSWERED = event('llm_call_completed', {
  ...BY,
  call_id: 'c',
  model: 'm1',
  response: '[{"name":"calc"}]',
  usage: { prompt_tokens: 3 },
  finish_reason: 'tool_calls',
});
const TOOL = event('tool_usage_started', { ...BY, tool_name: 'calc', tool_args: { x: 1 } });
const OTHER = event('tool_usage_started', { ...BY, tool_name: 'calc', tool_args: { x: 2 } });
const RETURNED = event('tool_usage_finished', {
  ...BY,
  tool_name: 'calc',
  tool_args: { x: 1 },
  output: '2',
  from_cache: true,
});
const FAILED = event(
  'tool_usage_error',
  { ...BY, tool_name: 'calc', tool_args: {}, error: 'late' },
  { parent_event_id: OTHER.event_id },
);
const SCORED = event('agent_evaluation_completed', {
  ...BY,
  metric_category: 'goal',
  score: { score: 7, feedback: 'fine' },
});
const MEMORY = event('memory_query_started', { query: 'x' });
const DONE = event('crew_kickoff_completed', { output: '20', total_tokens: 9 });
const ALL = [STARTED, AGENT, ASKED, ANSWERED, TOOL, OTHER, RETURNED, FAILED, SCORED, MEMORY, DONE];

describe('a trace batch of CrewAI', () => {
  const { of, refused } = read('crewai', batch(...ALL));

  it('is the episode of its id, its agents the roles without the white space around them', () => {
    expect(known(batch(...ALL))).toBe('crewai');
    expect(refused).toEqual([]);
    expect(of('episode.started')).toMatchObject([{ episode_id: 'b-1', session_id: 's', task_id: 't-1' }]);
    expect(of('agent.defined')).toMatchObject([{ agent_id: 'Senior Solver', system_instructions: 'Solve.\n\nOld.' }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'unknown', answer: '20', unmapped: { total_tokens: 9 } }]);
  });

  it('pairs the start and the end of a model call by its id', () => {
    expect(of('generation.requested')).toMatchObject([
      { call_id: 'c', model: 'm1', params: { temperature: 0.5 }, input: [{ role: 'user' }] },
    ]);
    expect(of('generation.completed')).toMatchObject([
      { call_id: 'c', usage: { input_tokens: 3 }, choices: [{ finish_reason: 'tool_calls' }] },
    ]);
  });

  it('pairs tools by their parent event, else by tool and arguments, with the model call before them', () => {
    expect(of('tool.called').map(({ tool_call_id, call_id, index }) => [tool_call_id, call_id, index])).toEqual([
      [TOOL.event_id, 'c', 0],
      [OTHER.event_id, 'c', 1],
    ]);
    expect(of('tool.returned')).toMatchObject([
      { tool_call_id: TOOL.event_id, status: 'ok', output: '2', from_cache: true },
      { tool_call_id: OTHER.event_id, status: 'error', error: 'late' },
    ]);
    const alone = read('crewai', batch(RETURNED));
    expect([alone.of('tool.called').length, alone.of('tool.returned')[0]!.tool_call_id]).toEqual([
      1,
      alone.of('tool.called')[0]!.tool_call_id,
    ]);
  });

  it('takes evaluations as scores and keeps events without a place by their type', () => {
    expect(of('feedback.recorded')).toMatchObject([
      { name: 'goal', value: 7, explanation: 'fine', target: { kind: 'agent', id: 'Senior Solver' } },
    ]);
    expect(of('environment.observed').map(({ kind }) => kind)).toEqual([
      'crew_kickoff_started',
      'memory_query_started',
    ]);
    expect(read('crewai', batch(event('crew_test_result', { quality: 8 }))).of('feedback.recorded')).toMatchObject([
      { name: 'quality', target: { kind: 'episode' } },
    ]);
  });

  it('is the same in any order of its events, in which an event may stand twice', () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([...ALL, TOOL], { minLength: ALL.length + 1 }), (events) => {
        const contentOf = (list: unknown[]) =>
          read('crewai', batch(...list)).drafts.filter(({ name }) => !/^(artifact|episode.started)/.test(name));
        expect(contentOf(events)).toEqual(contentOf(ALL));
      }),
      { numRuns: 30 },
    );
  });

  it('refuses an event that cannot be read and keeps the rest; an order written as text is a number', () => {
    const bad = [
      { ...AGENT, type: undefined },
      { ...ASKED, event_data: '{}' },
      { ...TOOL, emission_sequence: 'x' },
      { ...ANSWERED, emission_sequence: '4' },
    ];
    const batchOfBad = read('crewai', batch(...bad));
    expect(batchOfBad.refused).toEqual([
      'bad_type events[0].type',
      'bad_type events[1].event_data',
      'bad_number events[2].emission_sequence',
    ]);
    expect(batchOfBad.of('generation.completed')).toMatchObject([{ seq: 4 }]);
    expect(batchOfBad.of('episode.started')[0]!.flags).toContain('incomplete');
  });
});

describe('the log file of a crew', () => {
  const entry = {
    timestamp: '2026-09-10 10:00:01',
    task_name: 'one',
    task: 'How long?',
    agent: 'solver',
    status: 'started',
  };
  const list = [entry, { ...entry, status: 'completed', output: '20' }];

  it('is one run for the whole list, a step for each output, at a time that is not known', () => {
    expect(recognise({ records: list, shape: 'array' })?.name).toBe('crewai');
    expect(formatNamed('crewai').gathers!({ records: list, shape: 'array' })).toBe('file');
    const { of, times } = read('crewai', list);
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'solver', choices: [{ content: '20' }] }]);
    expect(of('decision.made')).toMatchObject([{ kind: 'assign' }]);
    expect(times('generation.completed')).toEqual([null]);
    expect(read('crewai', [...list, entry]).of('episode.started')[0]!.episode_id).toBe(
      of('episode.started')[0]!.episode_id,
    );
  });

  it.each(['named', 'again'])(
    'of several kickoffs is an episode for each, as CrewAI 1.15.30 appends them (%s)',
    async (name) => {
      const path = join(import.meta.dirname, `recorded/crewai/output-log-${name}.jsonl`);
      const lines = readFileSync(path, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Record<string, unknown>);
      const memory = memoryLog();
      expect(await importFiles([path], memory)).toMatchObject({
        ...{ format: 'crewai', episodes: 2, tasks: name === 'named' ? 2 : 1, agents: 2, calls: 4, errors: [] },
      });
      expect((await importFiles([path], memory)).events).toMatchObject({ accepted: 0 });
      const [first, second] = [lines.slice(0, 4), lines.slice(4)];
      const ids = (list: unknown[]) =>
        read('crewai', list)
          .of('episode.started')
          .map((one) => one.episode_id);
      expect(ids(first)).toEqual([ids(lines)[0]]);
      // Those of another text are known without the first; of equal ones, begun in one second, the number decides.
      if (name === 'named') expect(ids(second)).toEqual([ids(lines)[1]]);
      for (const episode of ids(lines)) {
        const calls = read('crewai', lines)
          .of('generation.completed')
          .filter((one) => one.episode_id === episode);
        expect(calls.map(({ agent_id }) => agent_id)).toEqual(['Planner', 'Writer']);
      }
    },
  );

  it('refuses an entry without an agent', () => {
    expect(read('crewai', [entry, { ...entry, agent: null }]).refusals).toMatchObject([{ at: 1, field: 'agent' }]);
  });
});

describe('what a kickoff of CrewAI returned', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'calc', arguments: '{"x":1}' } };
  const messages = [
    { role: 'user', content: 'Add.' },
    { role: 'assistant', content: '', tool_calls: [call] },
    { role: 'tool', content: '2', tool_call_id: 'c1', name: 'calc' },
  ];
  const task = (agent: string, more: object = {}) => ({
    description: 'Add one and one.',
    expected_output: 'a number',
    raw: '2',
    agent,
    ...more,
  });
  const output = (...tasks_output: unknown[]) => ({ raw: '2', tasks_output, token_usage: { total_tokens: 9 } });

  it('has the conversation of each task, with the answer where no message holds it', () => {
    const said = [...messages, { role: 'assistant', content: '2' }];
    const native = output(task('Solver', { messages }), task('Critic ', { messages: said }));
    expect(known(native)).toBe('crewai');
    const { of, refused } = read('crewai', native);
    expect(refused).toEqual([]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual([
      'Solver',
      'Solver',
      'Critic',
      'Critic',
    ]);
    expect(of('generation.requested').map(({ input }) => (input as unknown[]).length)).toEqual([1, 3, 1, 3]);
    const ids = ['c1', 'c1#2'];
    expect(of('tool.called').map(({ tool_call_id }) => tool_call_id)).toEqual(ids);
    expect(of('tool.returned').map(({ tool_call_id, output }) => [tool_call_id, output])).toEqual([
      [ids[0], '2'],
      [ids[1], '2'],
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'Add one and one.' }]);
    expect(of('decision.made').map(({ kind }) => kind)).toEqual(['assign', 'assign']);
    expect(of('episode.finished')).toMatchObject([{ answer: '2', unmapped: { token_usage: { total_tokens: 9 } } }]);
  });

  it('has an answer of unknown input where the task keeps no messages', () => {
    const { of } = read('crewai', output(task('Solver')));
    expect(of('generation.completed')).toMatchObject([{ agent_id: 'Solver', choices: [{ content: '2' }] }]);
    expect(of('generation.requested')).toEqual([]);
  });

  it('refuses a task that names no agent, and keeps the others', () => {
    const { of, refused } = read('crewai', output(task(''), task('Solver', { messages })));
    expect(refused).toEqual(['bad_identifier tasks_output[0].agent']);
    expect(of('generation.completed')).toHaveLength(2);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
  });
});
