/**
 * Recorded with the writers of meta-agents-research-environments 1.2.0 (a scenario of one contact, a scripted model that billed 10 + n in
 * and 3 n out; the system prompt was replaced), MASLab (4ecccf58, methods llm_debate and mad, a scripted model) and AgentBoard's logger (bb7255e2).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const path = (name: string): string => join(import.meta.dirname, 'recorded', name);
const json = (name: string): Data => JSON.parse(readFileSync(path(name), 'utf8')) as Data;

async function imported(...names: string[]) {
  const memory = memoryLog();
  const report = await importFiles(names.map(path), memory);
  const again = await importFiles(names.map(path), memory);
  expect(again.events).toMatchObject({ accepted: 0, rejected: report.events.rejected });
  return report;
}

const usages = (of: (name: 'generation.completed') => Data[]) => of('generation.completed').map(({ usage }) => usage);
const BILLED = [1, 2, 3].map((n) => ({ input_tokens: 10 + n, output_tokens: 3 * n }));

describe('A trace of Meta Agents Research Environments', () => {
  const trace = json('are/trace.jsonl') as Data & { world_logs: string[]; completed_events: Data[]; metadata: Data };

  it('is an episode: calls as billed with what the model was sent, tools with results and errors, the verdict', async () => {
    expect(await imported('are/trace.jsonl')).toMatchObject({
      ...{ format: 'are', episodes: 1, tasks: 1, agents: 1, calls: 3, tool_calls: 3, feedback: 1, errors: [] },
    });
    const { of } = read('are', trace);
    expect(usages(of)).toEqual(BILLED);
    expect(of('generation.requested')[2]!.input).toMatchObject(
      ['system', 'user', 'assistant', 'user', 'assistant', 'user'].map((role) => ({ role })),
    );
    expect(of('tool.called').map(({ name, arguments: args, call_id }) => [name, args, call_id])).toEqual([
      ['ContactsApp__search_contacts', { query: 'Ada' }, of('generation.completed')[0]!.call_id],
      ['ContactsApp__get_contact', { contact_id: 'nope' }, of('generation.completed')[1]!.call_id],
      ['AgentUserInterface__send_message_to_user', { content: 'It is ada@example.com.' }, expect.any(String)],
    ]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(['ok', 'error', 'ok']);
    expect(of('task.defined')).toMatchObject([{ task_id: 'are/scenario_names', query: 'What is the e-mail of Ada?' }]);
    expect(of('feedback.recorded')).toMatchObject([{ kind: 'reward', value: 1 }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'success' }]);
  });

  it('without the logs of its agents, as a benchmark writes it, shows tools and messages and is incomplete', () => {
    const { of } = read('are', { ...trace, world_logs: [] });
    expect(of('generation.completed')).toEqual([]);
    expect(of('tool.called').map(({ agent_id, name }) => [agent_id, name])).toMatchObject([
      ['default', 'ContactsApp__search_contacts'],
      ['default', 'ContactsApp__get_contact'],
      ['default', 'AgentUserInterface__send_message_to_user'],
    ]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(['ok', 'error', 'ok']);
    expect(of('message.sent')).toMatchObject([{ from: 'user', content: 'What is the e-mail of Ada?' }]);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
  });

  it('in the lite form has the same calls and tools, and the same task', async () => {
    expect(await imported('are/lite.jsonl')).toMatchObject({ episodes: 1, calls: 3, tool_calls: 3, errors: [] });
    const { of } = read('are', json('are/lite.jsonl'));
    expect(usages(of)).toEqual(BILLED);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(['ok', 'error', 'ok']);
    expect(of('task.defined')).toMatchObject([{ task_id: 'are/scenario_names', query: 'What is the e-mail of Ada?' }]);
    const groups = [trace, json('are/lite.jsonl')].map((one) => read('are', one).of('episode.started')[0]!.group_id);
    expect(groups[0]).toBe(groups[1]);
  });

  it('shows a sub-agent under its caller, and an answer that was no action as an error', () => {
    const log = (n: number, type: string, agent: string, more: Data) =>
      ({ log_type: type, id: `l${n}`, agent_id: agent, timestamp: n, ...more }) as Data;
    const { of } = read('are', {
      ...trace,
      world_logs: [
        log(1, 'llm_output', 'a1', { content: 'Action: {}' }),
        log(2, 'error', 'a1', { error: 'Invalid', exception: 'no tool' }),
        log(3, 'llm_output', 'a1', { content: 'ask' }),
        log(4, 'tool_call', 'a1', { tool_name: 'expert', tool_arguments: 'who?' }),
        log(5, 'subagent', 'a1', {
          name: 'Contacts',
          children: [log(6, 'llm_output', 'a2', { content: 'Ada', prompt_tokens: 4, completion_tokens: 2 })],
        }),
        log(7, 'observation', 'a1', { content: 'Ada', attachments: [] }),
      ].map((one) => JSON.stringify(one)),
    });
    expect(of('agent.defined')).toMatchObject([
      { agent_id: 'default' },
      { agent_id: 'a2', parent_agent_id: 'default', name: 'Contacts' },
    ]);
    expect(of('generation.completed').map(({ agent_id }) => agent_id)).toEqual(['default', 'default', 'a2']);
    expect(of('tool.returned')).toMatchObject([{ tool_call_id: 'l4', output: 'Ada' }]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'error' }]);
  });

  it('that failed was not judged; one that nobody ran is its task alone', () => {
    const failed = { ...(trace.metadata.definition as Data), has_exception: true, exception_type: 'TimeoutError' };
    const { of } = read('are', { ...trace, metadata: { ...trace.metadata, definition: failed } });
    expect(of('feedback.recorded')).toEqual([]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error', unmapped: { exception_type: 'TimeoutError' } }]);
    const scenario = read('are', { ...trace, world_logs: [], completed_events: [] });
    expect(scenario.drafts.map(({ name }) => name)).toEqual(['task.defined']);
  });

  it('keeps what can be read beside a log that cannot', () => {
    const { refused, of } = read('are', { ...trace, world_logs: ['{', 7, ...trace.world_logs] });
    expect(refused).toEqual(['bad_shape world_logs[0]', 'bad_shape world_logs[1]']);
    expect(of('generation.completed')).toHaveLength(3);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
    expect(read('are', { scenario_id: 's' }).refused).toEqual(['bad_shape ']);
  });
});

describe('Results of MASLab', () => {
  const [row] = readFileSync(path('maslab/debate.jsonl'), 'utf8').split('\n');
  const first = JSON.parse(row!) as Data;

  it('are an episode a row without steps, with its answer and what it used', async () => {
    expect(await imported('maslab/debate.jsonl')).toMatchObject({
      ...{ format: 'maslab', episodes: 3, tasks: 3, calls: 0, errors: [] },
    });
    const { of } = read('maslab', first);
    expect(of('episode.finished')).toMatchObject([
      { answer: 'It is 5.', outcome: 'unknown', totals: { llm_calls: 7, input_tokens: 98, output_tokens: 84 } },
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'What is 2 + 3?', ground_truth: '5' }]);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
  });

  it('of a debate whose model answered once and failed once have the counts that the writer kept', async () => {
    expect(await imported('maslab/mad.jsonl')).toMatchObject({
      episodes: 2,
      tasks: 2,
      agents: 0,
      calls: 0,
      errors: [],
    });
    const rows = readFileSync(path('maslab/mad.jsonl'), 'utf8').trim().split('\n');
    expect(rows.flatMap((one) => read('maslab', JSON.parse(one)).of('episode.finished'))).toMatchObject([
      { answer: '18', outcome: 'unknown', totals: { llm_calls: 2, input_tokens: 25, output_tokens: 15 } },
      {
        outcome: 'error',
        stop_reason: 'TypeError: replace() argument 2 must be str, not None',
        totals: { llm_calls: 0 },
      },
    ]);
  });

  it('that failed are errors; what is no result is refused by field', () => {
    const { response: _, ...failed } = first;
    const { of } = read('maslab', { ...failed, error: 'Inference Error: Traceback\n  File "x.py"\nValueError: none' });
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error', stop_reason: 'ValueError: none' }]);
    expect(read('maslab', failed).refused).toEqual(['bad_shape response']);
    expect(read('maslab', { ...first, query: 7 }).refused).toEqual(['bad_type query']);
    expect(known(first)).toBe('maslab');
    expect(known({ query: 'q', generated_output: {}, token_stats: { m: {} } })).toBe('swe-dev');
  });
});

describe('Logs of AgentBoard', () => {
  const documents = readFileSync(path('agentboard/rooms.jsonl'), 'utf8').split(/\n(?=\{\n)/);
  const [first] = documents.map((text) => JSON.parse(text) as Data & { trajectory: Data });

  it('are an episode for each of the documents in a file: a step for each action, its progress, the reward', async () => {
    expect(await imported('agentboard/rooms.jsonl')).toMatchObject({
      ...{ format: 'agentboard', episodes: 2, tasks: 2, agents: 1, calls: 5, feedback: 9, errors: [] },
    });
    const { of } = read('agentboard', first);
    expect(of('generation.completed').map(({ choices, turn }) => [turn, (choices as Data[])[0]!.content])).toEqual([
      [0, 'open the drawer'],
      [1, 'take the key'],
    ]);
    expect(of('message.sent').map(({ content }) => content)).toEqual(['It holds a key.', 'You have the key.']);
    expect(of('feedback.recorded').map(({ kind, name, value }) => [kind, name, value])).toEqual([
      ['score', 'progress_rate', 0.5],
      ['score', 'progress_rate', 1],
      ['reward', 'progress_rate', 1],
      ['score', 'grounding_acc', 1],
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'success' }]);
  });

  it('are the same one document a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-agentboard-'));
    for (const [i, text] of documents.toReversed().entries()) writeFileSync(join(folder, `${i}.json`), text);
    const memory = memoryLog();
    await importFiles([path('agentboard/rooms.jsonl')], memory);
    const again = await importFiles([folder], memory);
    rmSync(folder, { recursive: true });
    expect(again).toMatchObject({ episodes: 2, events: { accepted: 0, rejected: 0 } });
  });

  it('keep the turns beside one that is none, and refuse what has no goal', () => {
    const { refused, of } = read('agentboard', { ...first, trajectory: { ...first!.trajectory, 'Turn 9': {} } });
    expect(refused).toEqual(['bad_shape trajectory["Turn 9"]']);
    expect(of('generation.completed')).toHaveLength(2);
    expect(read('agentboard', { ...first, task_name: null, goal: null }).refused).toEqual(['bad_type goal']);
  });
});
