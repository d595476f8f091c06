/**
 * Recorded with openhands-sdk 1.58.0 and with the events of OpenHands at d6fab190, both with answers that were made up and billed 10 + n
 * tokens in and 3 n out for the nth; descriptions of built-in tools and places of the machine were left out.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const lines = (name: string): Data[] =>
  readFileSync(join(import.meta.dirname, 'recorded/openhands', name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Data);

const [STATE, ...SDK] = lines('sdk.jsonl') as [Data, ...Data[]];
const EARLY = lines('early.jsonl');
const folder = mkdtempSync(join(tmpdir(), 'troupe-openhands-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A folder of conversations as the SDK keeps them. */
function conversations(
  name: string,
  ...of: readonly { readonly state: Data | null; readonly events: readonly Data[] }[]
) {
  for (const [n, { state, events }] of of.entries()) {
    const place = join(folder, name, `c${n}`, 'events');
    mkdirSync(place, { recursive: true });
    for (const [i, event] of events.entries())
      writeFileSync(join(place, `event-${String(i).padStart(5, '0')}-${event.id}.json`), JSON.stringify(event));
    if (state) writeFileSync(join(place, '..', 'base_state.json'), JSON.stringify(state));
  }
  return join(folder, name);
}

async function imported(path: string) {
  const memory = memoryLog();
  const report = await importFiles([path], memory);
  expect((await importFiles([path], memory)).events).toMatchObject({ accepted: 0, rejected: report.events.rejected });
  const of = (name: string) => memory.events.filter((event) => event.name === name).map(({ data }) => data as Data);
  return { report, of };
}

function file(name: string, value: unknown): string {
  writeFileSync(join(folder, name), JSON.stringify(value));
  return join(folder, name);
}

const usages = (of: (name: string) => Data[]) => of('generation.completed').map(({ usage }) => usage);

describe('A conversation of the OpenHands SDK', () => {
  it('is an episode: calls as billed, parallel tools with results, its answer', async () => {
    const { report, of } = await imported(conversations('one', { state: STATE, events: SDK }));
    expect(report).toMatchObject({
      ...{ format: 'openhands', files: 9, episodes: 1, tasks: 1, agents: 1, calls: 2, tool_calls: 3, errors: [] },
    });
    expect(usages(of)).toMatchObject([
      { input_tokens: 11, output_tokens: 3 },
      { input_tokens: 12, output_tokens: 6 },
    ]);
    expect(of('tool.called').map(({ name, arguments: args }) => [name, args])).toEqual([
      ['look_up', { city: 'Bern', summary: 'look' }],
      ['look_up', { city: 'Nowhere', summary: 'look' }],
      ['finish', { message: 'Bern is 12 km away.' }],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, status, output }) => [tool_call_id, status, output])).toEqual([
      ['c1', 'ok', '12 km'],
      ['c2', 'error', 'no such city'],
      ['c3', 'ok', 'Bern is 12 km away.'],
    ]);
    expect(of('generation.requested').map(({ input }) => (input as Data[]).map(({ role }) => role).join(' '))).toEqual([
      'system user',
      'system user assistant tool tool',
    ]);
    expect(of('agent.defined')).toMatchObject([{ agent_id: 'agent', system_instructions: 'You look things up.' }]);
    expect(of('episode.started')).toMatchObject([{ episode_id: STATE.id, flags: ['no_token_ids'] }]);
    expect(of('episode.finished')).toMatchObject([{ answer: 'Bern is 12 km away.', stop_reason: 'finished' }]);
    expect(of('task.defined')).toMatchObject([{ query: 'How far is Bern?' }]);
  });

  it('stays apart from the one beside it, and is read without its state, unbilled', async () => {
    const other = SDK.map((event) => ({ ...event, id: `x${String(event.id)}` }));
    const { report, of } = await imported(
      conversations('two', { state: STATE, events: SDK }, { state: null, events: other }),
    );
    expect(report).toMatchObject({ episodes: 2, tasks: 1, calls: 4, tool_calls: 6, errors: [] });
    expect(usages(of).filter((usage) => usage !== undefined)).toHaveLength(2);
    expect(
      of('episode.started')
        .map(({ episode_id }) => episode_id)
        .toSorted(),
    ).toEqual([STATE.id, `x${String(SDK[0]!.id)}`].toSorted());
  });

  it('keeps token ids that the model server gave, and forgets what was condensed', () => {
    const tokens = {
      kind: 'TokenEvent',
      id: 't',
      timestamp: 'x',
      source: 'agent',
      prompt_token_ids: [1, 2],
      response_token_ids: [3],
    };
    const forgot = {
      ...{ kind: 'Condensation', id: 'f', timestamp: 'x', source: 'environment', llm_response_id: 'r' },
      ...{ forgotten_event_ids: SDK.slice(2, 6).map(({ id }) => id), summary: 'Looked twice.', summary_offset: 2 },
    };
    const { of } = read('openhands', [...SDK.slice(0, 6), tokens, forgot, ...SDK.slice(6)]);
    const [first, second] = of('generation.completed');
    expect(first).toMatchObject({ prompt_token_ids: [1, 2], choices: [{ token_ids: [3] }] });
    expect(second).not.toHaveProperty('prompt_token_ids');
    expect(of('generation.requested')[1]!.input).toEqual([
      { role: 'system', content: 'You look things up.' },
      { role: 'user', content: 'How far is Bern?' },
      { role: 'user', content: 'Looked twice.' },
    ]);
    expect(of('environment.observed')).toMatchObject([{ kind: 'condensation' }]);
    expect(of('episode.started')).toMatchObject([{ flags: [] }]);
  });

  it('keeps refusals of a user and errors of the program as results', () => {
    const denied = { ...SDK[4], kind: 'UserRejectObservation', observation: undefined, rejection_reason: 'No.' };
    const failed = { ...SDK[5], kind: 'AgentErrorEvent', observation: undefined, error: 'no such tool' };
    const { of } = read('openhands', [...SDK.slice(0, 4), denied, failed]);
    expect(of('tool.returned').map(({ status, output }) => [status, output])).toEqual([
      ['denied', 'No.'],
      ['error', 'no such tool'],
    ]);
  });
});

describe('A trajectory of OpenHands', () => {
  it('is an episode: each response once, as billed, its results by cause, a delegate as an agent', async () => {
    const { report, of } = await imported(file('trajectory.json', EARLY));
    expect(report).toMatchObject({
      ...{ format: 'openhands', episodes: 1, tasks: 1, agents: 2, calls: 4, tool_calls: 4, errors: [] },
    });
    expect(of('generation.completed').map(({ agent_id, usage }) => [agent_id, usage])).toMatchObject([
      ['CodeActAgent', { input_tokens: 11, output_tokens: 3 }],
      ['CodeActAgent', { input_tokens: 12, output_tokens: 6 }],
      ['BrowsingAgent', { input_tokens: 13, output_tokens: 9 }],
      ['CodeActAgent', { input_tokens: 13, output_tokens: 9 }],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, output, flags }) => [tool_call_id, output, flags])).toEqual([
      ['c1', '12 km', undefined],
      ['c2', 'no such city', ['apparent_error']],
      ['c3', 'It is 12 km.', undefined],
    ]);
    expect(of('control.transferred')).toMatchObject([
      { from_agent: 'CodeActAgent', to_agent: 'BrowsingAgent', kind: 'delegate', tool_call_id: 'c3' },
    ]);
    expect(of('agent.defined').map(({ agent_id, parent_agent_id }) => [agent_id, parent_agent_id])).toEqual([
      ['CodeActAgent', undefined],
      ['BrowsingAgent', 'CodeActAgent'],
    ]);
    expect(of('generation.requested').map(({ input }) => (input as Data[]).map(({ role }) => role).join(' '))).toEqual([
      'system user',
      'system user assistant tool tool',
      'user',
      'system user assistant tool tool assistant tool',
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'unknown', answer: '12 km.', stop_reason: 'finish' }]);
  });

  it('is the same as a file for each event, in any order', async () => {
    const path = join(folder, 'session', 'events');
    mkdirSync(path, { recursive: true });
    for (const event of EARLY) writeFileSync(join(path, `${event.id}.json`), JSON.stringify(event));
    const memory = memoryLog();
    await importFiles([file('same.json', EARLY)], memory);
    const again = await importFiles([path], memory);
    expect(again).toMatchObject({ episodes: 1, calls: 4, errors: [] });
    const names = memory.events.flatMap(({ name, key }) => (name === 'episode.started' ? [key] : []));
    expect(new Set(names).size).toBe(1);
  });

  it('of an evaluation has its instance as the task, its tests as scores, its error as the outcome', () => {
    const output = { instance_id: 'city-1', instruction: 'How far?', history: EARLY, error: 'timeout' };
    const { of } = read('openhands', {
      ...output,
      test_result: { git_patch: '', report: { resolved: false, tests: 3 } },
    });
    expect(of('task.defined')).toMatchObject([{ task_id: 'city-1', query: 'How far?' }]);
    expect(of('feedback.recorded').map(({ name, value }) => [name, value])).toEqual([
      ['resolved', false],
      ['tests', 3],
    ]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'error', unmapped: { error: 'timeout' } }]);
    expect(of('generation.completed')).toHaveLength(4);
  });

  it('without responses is mapped from its actions, and keeps the events beside one that is none', () => {
    const plain = EARLY.map((event) => ({ ...event, tool_call_metadata: undefined }));
    const { of, refused } = read('openhands', [...plain, 7]);
    expect(refused).toEqual(['bad_shape ']);
    expect(of('tool.called').map(({ name, arguments: args }) => [name, (args as Data).command])).toEqual([
      ['run', 'far Bern'],
      ['run', 'far Nowhere'],
      ['delegate', undefined],
      ['finish', undefined],
    ]);
    expect(of('tool.returned').map(({ tool_call_id }) => tool_call_id)).toEqual(['e2', 'e3', 'e6']);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
    expect(read('openhands', [3]).refused).toEqual(['bad_shape ', 'bad_shape events']);
  });

  it('that the web page recorded begins with reports of its environment, and a message has no result', () => {
    const report = (id: number, more: Data) => ({ id, source: 'environment', message: '', ...more });
    const { of, refused } = read('openhands', [
      report(0, { observation: 'agent_state_changed', content: '', extras: { agent_state: 'loading' } }),
      report(1, { action: 'change_agent_state', args: { agent_state: 'init' } }),
      report(2, { observation: 'null', cause: 1, content: '', extras: {} }),
      { id: 3, source: 'user', action: 'message', args: { content: 'Greet me.' } },
      { id: 4, source: 'user', observation: 'null', cause: 3, content: '', extras: {} },
      { id: 5, source: 'agent', action: 'message', args: { content: 'Hello.' } },
      { id: 6, source: 'agent', observation: 'null', cause: 5, content: '', extras: {} },
    ]);
    expect(refused).toEqual([]);
    expect(of('message.sent')).toMatchObject([{ content: 'Greet me.' }]);
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: 'Hello.' }] }]);
    expect(of('tool.returned')).toEqual([]);
  });

  it('mixed with events of the SDK are both kept', () => {
    const { of, refused } = read('openhands', [...EARLY, ...SDK]);
    expect(refused).toEqual([]);
    const of2 = (list: readonly unknown[]) => read('openhands', [...list]).of('generation.completed').length;
    expect(of('generation.completed')).toHaveLength(of2(EARLY) + of2(SDK));
  });

  it('is recognised without a name', () => {
    expect(known(...EARLY)).toBe('openhands');
    expect(known(STATE)).toBe('openhands');
    expect(known(SDK[2])).toBe('openhands');
    expect(known({ instance_id: 'i', history: EARLY })).toBe('openhands');
    expect(known({ source: 'user', content: 'x' })).toBe(null);
  });
});

describe('What OpenHands says that a run cost', () => {
  const costs = (value: unknown) =>
    read('openhands', value)
      .of('generation.completed')
      .map(({ usage }) => (usage as Data | undefined)?.cost_usd);

  it('is the growth of its account, at each answer of its early events', () => {
    let answers = 0;
    const spent = EARLY.map((event) =>
      'llm_metrics' in event
        ? { ...event, llm_metrics: { ...(event.llm_metrics as Data), accumulated_cost: 0.25 * ++answers } }
        : event,
    );
    const found = costs(spent);
    expect(found.slice(0, 2)).toEqual([0.25, 0.5]);
    expect(found.reduce((sum: number, one) => sum + Number(one ?? 0), 0)).toBeLessThanOrEqual(0.25 * answers);
    expect(costs(EARLY)).toEqual(found.map(() => undefined));
  });

  it('is the price of each response in the state of a conversation, where each has one', () => {
    const priced = (...prices: number[]) => {
      const state = structuredClone(STATE) as { stats: { usage_to_metrics: { agent: Data } } } & Data;
      state.stats.usage_to_metrics.agent.costs = prices.map((cost) => ({ model: 'm1', cost, timestamp: 1 }));
      return costs([state, ...SDK]);
    };
    expect(priced(0.5, 0.125)).toEqual([0.5, 0.125]);
    expect(priced(0.5)).toEqual([undefined, undefined]);
  });
});
