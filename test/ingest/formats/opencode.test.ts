/** Recorded with opencode 1.18.33 against a scripted model server, which billed 10 + n tokens in and 3 n out for its nth answer. */
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { tablesOf } from '../support/tables.ts';
import { type Data, known, read } from './support/convert.ts';

const FOLDER = join(import.meta.dirname, 'recorded/opencode');
const FILES = ['main.json', 'subagent.json'].map((file) => join(FOLDER, file));
type Export = {
  info: Data & { id: string };
  messages: { info: Data & { id: string }; parts: (Data & { id: string })[] }[];
};
const exportIn = (path: string): Export => JSON.parse(readFileSync(path, 'utf8'));
const [SESSION, CHILD] = ['ses_de522e954ffeDE16n0tmHc21rS', 'ses_de522e306ffej2FPkAJssVeoUF'];

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'troupe-opencode-'));
});
afterAll(() => rm(scratch, { recursive: true }));

/** The files that versions before 1.2 kept these sessions in. */
async function storageOf(exports: readonly Export[]): Promise<string[]> {
  const files = exports.flatMap(({ info, messages }) => [
    [`session/global/${info.id}.json`, info] as const,
    ...messages.flatMap(({ info: message, parts }) => [
      [`message/${info.id}/${message.id}.json`, message] as const,
      ...parts.map((part) => [`part/${message.id}/${part.id}.json`, part] as const),
    ]),
  ]);
  for (const [name, value] of files) {
    const path = join(scratch, name);
    await mkdir(join(path, '..'), { recursive: true });
    await writeFile(path, JSON.stringify(value, null, 2));
  }
  return files.map(([name]) => join(scratch, name));
}

const message = (id: string, created: number, more: Data, ...parts: Data[]) => ({
  info: { id, sessionID: 'ses_1', time: { created, completed: created + 1 }, ...more },
  parts: parts.map((part, i) => ({ id: `prt_${id}_${i}`, sessionID: 'ses_1', messageID: id, ...part })),
});
const exported = (...messages: object[]) => ({
  info: { id: 'ses_1', title: 't', directory: '/w', time: { created: 0, updated: 9 } },
  messages,
});
const asked = (id: string, created: number, text: string) =>
  message(id, created, { role: 'user' }, { type: 'text', text });
const finish = (tokens: Data) => ({ type: 'step-finish', reason: 'stop', cost: 0.5, tokens });

describe('A session of opencode with a sub-agent', () => {
  it('is one episode: 6 calls of 2 agents, 4 tool calls, the tokens that were billed', async () => {
    const memory = memoryLog();
    const report = await importFiles(FILES, memory);
    expect(report).toMatchObject({
      format: 'opencode',
      episodes: 1,
      tasks: 1,
      agents: 2,
      calls: 6,
      tool_calls: 4,
      errors: [],
    });
    const of = (name: string) =>
      memory.events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
    expect(new Set(of('generation.completed').map(({ episode_id }) => episode_id))).toEqual(new Set([SESSION]));
    const billed = of('generation.completed').map(({ agent_id, usage }) => {
      const { input_tokens, output_tokens } = usage as { input_tokens: number; output_tokens: number };
      return [agent_id, input_tokens, output_tokens] as const;
    });
    expect(billed.sort((a, b) => a[1] - b[1])).toEqual([
      ['main', 12, 6],
      ['main', 13, 9],
      [CHILD, 14, 12],
      [CHILD, 15, 15],
      ['main', 16, 18],
      ['main', 17, 21],
    ]);
    expect(
      of('tool.returned')
        .map(({ status }) => status)
        .sort(),
    ).toEqual(['error', 'ok', 'ok', 'ok']);
    expect(of('agent.defined')).toMatchObject([
      { agent_id: 'main', name: 'build' },
      { agent_id: CHILD, name: 'general', role: 'general', parent_agent_id: 'main' },
    ]);
    expect(of('control.transferred')).toMatchObject([{ from_agent: 'main', to_agent: CHILD, kind: 'delegate' }]);
    expect(of('message.sent').map(({ from, to }) => [from, to])).toContainEqual(['main', [CHILD]]);
  });

  it('says the same in any order of its files, in one import or in two, and nothing new when it is read again', async () => {
    const whole = memoryLog();
    await importFiles(FILES, whole);
    for (const imports of [
      [FILES.toReversed()],
      FILES.map((file) => [file]),
      FILES.toReversed().map((file) => [file]),
    ]) {
      const memory = memoryLog();
      for (const files of imports) await importFiles(files, memory);
      expect(tablesOf(memory.events)).toEqual(tablesOf(whole.events));
    }
    expect((await importFiles(FILES, whole)).events).toMatchObject({ accepted: 0, rejected: 0 });
  });

  it('says the same as the files of sessions, messages and parts that versions before 1.2 kept', async () => {
    const whole = memoryLog();
    await importFiles(FILES, whole);
    const files = await storageOf(FILES.map(exportIn));
    const memory = memoryLog();
    expect(await importFiles(files, memory)).toMatchObject({ format: 'opencode', files: files.length, errors: [] });
    expect(tablesOf(memory.events)).toEqual(tablesOf(whole.events));
    const parts = memoryLog();
    const half = files.length / 2;
    await importFiles(files.slice(half), parts);
    await importFiles(files.slice(0, half), parts);
    expect(tablesOf(parts.events)).toEqual(tablesOf(whole.events));
  });
});

describe('Messages of opencode', () => {
  it('with several steps, as in 2025, are as many calls, each with its tokens', () => {
    const tool = {
      type: 'tool',
      tool: 'f',
      callID: 'c',
      state: { status: 'completed', input: {}, output: 'x', time: { start: 3, end: 4 } },
    };
    const { of } = read(
      'opencode',
      exported(
        asked('msg_1', 1, 'q'),
        message(
          'msg_2',
          2,
          { role: 'assistant', modelID: 'm' },
          { type: 'step-start' },
          tool,
          finish({ input: 1, output: 5, reasoning: 2, cache: { read: 10, write: 100 } }),
          { type: 'step-start' },
          { type: 'text', text: 'a' },
          finish({ input: 2, output: 5, reasoning: 2, total: 19, cache: { read: 10, write: 0 } }),
        ),
      ),
    );
    expect(of('generation.completed').map(({ call_id }) => call_id)).toEqual(['msg_2', 'msg_2/2']);
    // Without a total the reasoning is part of the output; where all counts make the total it stands beside it.
    expect(of('generation.completed').map(({ usage }) => usage)).toMatchObject([
      { input_tokens: 111, cached_input_tokens: 10, output_tokens: 5 },
      { input_tokens: 12, cached_input_tokens: 10, output_tokens: 7, total_tokens: 19 },
    ]);
    expect((of('generation.requested')[1]!.input as Data[]).map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
    ]);
  });

  it('that failed say so, count no tokens that are unknown, and are not shown to later calls', () => {
    const error = { name: 'APIError', data: { message: 'down' } };
    const { of } = read(
      'opencode',
      exported(
        asked('msg_1', 1, 'q'),
        message('msg_2', 2, { role: 'assistant', error, tokens: { input: 0, output: 0 } }, { type: 'step-start' }),
        message('msg_3', 4, { role: 'assistant' }, { type: 'text', text: 'a' }),
      ),
    );
    expect(of('generation.completed').map(({ error, usage }) => [error, usage])).toEqual([
      [error, undefined],
      [undefined, undefined],
    ]);
    expect((of('generation.requested')[1]!.input as Data[]).map(({ role }) => role)).toEqual(['user']);
  });

  it('before a compaction that came to its end are not shown to later calls', () => {
    const { of } = read(
      'opencode',
      exported(
        asked('msg_1', 1, 'one'),
        message('msg_2', 2, { role: 'assistant' }, { type: 'text', text: 'a' }),
        message('msg_3', 4, { role: 'user' }, { type: 'compaction', auto: true }),
        message('msg_4', 5, { role: 'assistant', summary: true }, { type: 'text', text: 'in short' }),
        asked('msg_5', 7, 'two'),
        message('msg_6', 8, { role: 'assistant' }, { type: 'text', text: 'b' }),
      ),
    );
    const shown = (of('generation.requested').at(-1)!.input as { content: Data[] }[]).map(({ content }) => content[0]);
    expect(shown).toMatchObject([{ type: 'compaction' }, { content: 'in short' }, { content: 'two' }]);
  });

  it('with a tool that still runs have a call without a result', () => {
    const tool = { type: 'tool', tool: 'f', callID: 'c', state: { status: 'running', input: {}, time: { start: 3 } } };
    const { of } = read('opencode', exported(asked('msg_1', 1, 'q'), message('msg_2', 2, { role: 'assistant' }, tool)));
    expect(of('tool.called')).toHaveLength(1);
    expect(of('tool.returned')).toEqual([]);
  });

  it('that cannot be read are refused by their place, and the session is incomplete', () => {
    const { of, refused } = read(
      'opencode',
      exported(
        asked('msg_1', 1, 'q'),
        message('msg_2', 2, { role: 'assistant' }, { type: 'tool', tool: 'f', callID: 'c', state: 'x' }),
        { info: { id: 'msg_3', sessionID: 'ses_1', role: 'poet' }, parts: [] },
      ),
    );
    expect(refused).toEqual(['bad_type messages[1].parts[0].state', 'bad_shape messages[2].info']);
    expect(of('episode.started')[0]!.flags).toContain('incomplete');
    expect(of('generation.completed')).toHaveLength(1);
  });
});

it('files of opencode are known by what they hold', () => {
  const { info, messages } = exportIn(FILES[0]!);
  for (const record of [{ info, messages }, info, messages[1]!.info, messages[1]!.parts[0]])
    expect(known(record)).toBe('opencode');
});
