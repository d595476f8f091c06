/**
 * Recorded with tau2 1.0.1 (`tau2 run --domain mock`) and a scripted model that billed 10 + n tokens in and 3 n out for the nth answer of
 * the agent and of the user; the texts of the domain were replaced and fields of audio left out. The folder of simulations is made of it.
 * `ended` was recorded with a domain of made-up texts: each of three tasks twice, of which one ends well, one at the most steps, and one
 * because the model server is down. The nth answer of the agent was billed 100 + n tokens in and 7 n out.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

type Simulation = Record<string, unknown> & { readonly id: string; readonly messages: Record<string, unknown>[] };
type Results = { readonly info: object; readonly tasks: object[]; readonly simulations: Simulation[] };

const FILE = join(import.meta.dirname, 'recorded/tau2-bench/results.jsonl');
const ENDED = join(import.meta.dirname, 'recorded/tau2-bench/ended.jsonl');
const RESULTS = JSON.parse(readFileSync(FILE, 'utf8')) as Results;
const [FIRST] = RESULTS.simulations as [Simulation];
const withFirst = (change: Record<string, unknown>) => ({ ...RESULTS, simulations: [{ ...FIRST, ...change }] });

describe('Results of tau2-bench', () => {
  it('are an episode for each simulation: calls of the agent as billed, its tools and those of the user', async () => {
    const memory = memoryLog();
    expect(await importFiles([FILE], memory)).toMatchObject({
      ...{ format: 'tau2-bench', episodes: 2, tasks: 2, agents: 2, calls: 4, tool_calls: 6, errors: [] },
    });
    expect((await importFiles([FILE], memory)).events).toMatchObject({ accepted: 0, rejected: 0 });
    const { of } = read('tau2-bench', RESULTS);
    expect(of('generation.completed').map(({ usage }) => usage)).toEqual([
      { input_tokens: 11, output_tokens: 3 },
      { input_tokens: 12, output_tokens: 6 },
      { input_tokens: 13, output_tokens: 9 },
      { input_tokens: 14, output_tokens: 12 },
    ]);
    expect(
      of('tool.called')
        .slice(0, 3)
        .map(({ agent_id, name, call_id }) => [agent_id, name, call_id]),
    ).toEqual([
      ['user', 'check_notifications', undefined],
      ['agent', 'create_task', 'm4'],
      ['agent', 'get_users', 'm4'],
    ]);
    expect(of('tool.returned').map(({ status }) => status)).toEqual(Array(6).fill('ok'));
    expect(of('episode.started').map(({ task_id, attempt }) => [task_id, attempt])).toEqual([
      ['tau2-bench/mock/create_task_1', 0],
      ['tau2-bench/mock/update_task_with_user_tools', 0],
    ]);
    expect(of('feedback.recorded').map(({ kind, name, value }) => [kind, name, value])).toEqual([
      ['reward', 'reward', 1],
      ['score', 'DB', 1],
      ['score', 'COMMUNICATE', 1],
      ['reward', 'reward', 0],
      ['score', 'DB', 0],
      ['score', 'ENV_ASSERTION', 0],
      ['score', 'ACTION', 0],
    ]);
    expect(of('episode.finished').map(({ outcome, stop_reason }) => [outcome, stop_reason])).toEqual([
      ['success', 'user_stop'],
      ['failure', 'user_stop'],
    ]);
  });

  it('show the agent neither calls nor results of the tools of the user, and take the greeting for no call', () => {
    const { of } = read('tau2-bench', RESULTS);
    const [first, second] = of('generation.requested').map(({ input }) =>
      (input as { role: string }[]).map((m) => m.role),
    );
    expect(first).toEqual(['assistant', 'user']);
    expect(second).toEqual(['assistant', 'user', 'assistant', 'tool', 'tool']);
    expect(of('message.sent')[0]).toMatchObject({ from: 'agent', role: 'assistant' });
    expect(of('message.sent')).toHaveLength(6);
  });

  it('that ended in three ways: a reward where the benchmark gave one, and a run without messages is incomplete', async () => {
    expect(await importFiles([ENDED], memoryLog())).toMatchObject({
      ...{ episodes: 6, tasks: 3, agents: 1, calls: 14, tool_calls: 10, feedback: 8, errors: [] },
    });
    const { of } = read('tau2-bench', JSON.parse(readFileSync(ENDED, 'utf8')));
    const ends = new Map(of('episode.finished').map((one) => [one.episode_id, [one.outcome, one.stop_reason]]));
    const tried = of('episode.started').map(({ task_id, attempt, flags, episode_id: id }) => [
      ...[task_id, attempt, ...(ends.get(id) as string[])],
      (flags as string[]).includes('incomplete'),
    ]);
    expect(tried).toEqual(
      [0, 1].flatMap((attempt) => [
        ['tau2-bench/mock/paint', attempt, 'success', 'user_stop', false],
        ['tau2-bench/mock/loop', attempt, 'failure', 'max_steps', false],
        ['tau2-bench/mock/down', attempt, 'error', 'infrastructure_error', true],
      ]),
    );
    expect(of('feedback.recorded').filter(({ kind }) => kind === 'reward')).toMatchObject([
      ...[{ value: 1 }, { value: 0 }, { value: 1 }, { value: 0 }],
    ]);
    const billed = of('generation.completed').map(({ usage }) => usage);
    expect(billed).toEqual(billed.map((_, i) => ({ input_tokens: 101 + i, output_tokens: 7 * (i + 1) })));
    expect(of('tool.returned').map(({ status }) => status)).toEqual(
      [0, 1].flatMap(() => ['error', 'ok', 'ok', 'ok', 'ok']),
    );
  });

  it('keep of the response beside an answer the reasoning and the arguments as written, and show the next call the arguments alone', () => {
    const { of } = read('tau2-bench', JSON.parse(readFileSync(ENDED, 'utf8')));
    const [first] = of('generation.completed');
    const [reasoning, called] = (first!.choices as { content: Data[] }[])[0]!.content;
    expect(first).toMatchObject({ response_id: 'chatcmpl-1', response_model: 'solver' });
    expect(first!.choices).toMatchObject([{ finish_reason: 'tool_calls' }]);
    expect(reasoning).toEqual({ type: 'reasoning', content: 'First I look.' });
    expect(called).toMatchObject({ arguments_raw: '{"task_id": "task_9", "status": "completed"}' });
    const asked = (id: string, name: string, given: object, written: string) => ({
      ...{ type: 'tool_call', id, name },
      ...{ arguments: given, arguments_raw: written },
    });
    const status = { task_id: 'task_9', status: 'completed' };
    expect((of('generation.requested')[1]!.input as Data[])[2]).toEqual({
      role: 'assistant',
      content: [
        asked('call_1_0', 'update_task_status', status, '{"task_id": "task_9", "status": "completed"}'),
        asked('call_1_1', 'get_users', {}, '{}'),
      ],
    });
    const [bare] = read('tau2-bench', withFirst({})).of('generation.completed');
    const meeting = { user_id: 'user_1', title: 'Important Meeting' };
    const content = [
      asked('agent-1-0', 'create_task', meeting, '{"user_id": "user_1", "title": "Important Meeting"}'),
      asked('agent-1-1', 'get_users', {}, '{}'),
    ];
    expect(bare!.choices).toEqual([{ index: 0, content }]);
  });

  it('give no reward to a run that failed before it could be judged, and none where there is none', () => {
    const broken = read('tau2-bench', withFirst({ termination_reason: 'infrastructure_error' }));
    expect(broken.of('feedback.recorded')).toEqual([]);
    expect(broken.of('episode.finished')).toMatchObject([{ outcome: 'error', stop_reason: 'infrastructure_error' }]);
    const unknown = read('tau2-bench', withFirst({ reward_info: null }));
    expect(unknown.of('feedback.recorded')).toEqual([]);
    expect(unknown.of('episode.finished')).toMatchObject([{ outcome: 'unknown' }]);
  });

  it('pair results without an id with the oldest call of whoever asked, also several in one message', () => {
    const call = (name: string, requestor: string) => ({ id: '', name, arguments: {}, requestor });
    const result = (content: string, requestor: string, error: boolean) => ({ id: '', content, requestor, error });
    const { of } = read(
      'tau2-bench',
      withFirst({
        messages: [
          { role: 'user', content: null, tool_calls: [call('look', 'user')] },
          { role: 'assistant', content: null, tool_calls: [call('a', 'assistant'), call('b', 'assistant')], usage: {} },
          { role: 'tool', tool_messages: [result('1', 'assistant', false), result('2', 'assistant', true)] },
          { role: 'tool', ...result('3', 'user', false) },
        ],
      }),
    );
    const names = new Map(of('tool.called').map(({ tool_call_id, name }) => [tool_call_id, name]));
    expect(
      of('tool.returned').map(({ tool_call_id, status, output }) => [names.get(tool_call_id), status, output]),
    ).toEqual([
      ['a', 'ok', '1'],
      ['b', 'error', '2'],
      ['look', 'ok', '3'],
    ]);
  });

  it('refuse audio and what is no message by name, and keep the other simulations', () => {
    const { refused, of } = read('tau2-bench', {
      ...RESULTS,
      simulations: [{ ...FIRST, messages: null, ticks: [] }, 'x', { ...FIRST, messages: [{ role: 'judge' }] }, FIRST],
    });
    expect(refused).toEqual([
      'bad_shape simulations[1]',
      'bad_shape simulations[0].messages',
      'bad_shape simulations[2].messages[0].role',
    ]);
    expect(of('episode.started')).toHaveLength(1);
  });

  it('may be a folder: the same events as in one file, whatever the order, and a missing simulation is named', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-tau2-'));
    const { simulations, ...header } = RESULTS;
    mkdirSync(join(folder, 'simulations'));
    for (const one of simulations) writeFileSync(join(folder, 'simulations', `${one.id}.json`), JSON.stringify(one));
    const index = [...simulations.map(({ id }) => ({ id })), { id: 'gone' }];
    const results = join(folder, 'results.json');
    writeFileSync(results, JSON.stringify({ ...header, simulation_index: index }));
    const memory = memoryLog();
    await importFiles([FILE], memory);
    const files = [...simulations.map(({ id }) => join(folder, 'simulations', `${id}.json`)), results];
    const report = await importFiles(files, memory);
    expect(report.events).toMatchObject({ accepted: 0 });
    expect(report).toMatchObject({
      episodes: 2,
      errors: [{ field: 'simulation_index', expected: 'the file simulations/gone.json' }],
    });
    rmSync(folder, { recursive: true });
  });

  it('are known by their content, also a single simulation, which holds messages as chat rows do', () => {
    expect(known(RESULTS)).toBe('tau2-bench');
    expect(known(FIRST)).toBe('tau2-bench');
    expect(known({ messages: FIRST.messages })).toBe('openai-chat');
  });
});
