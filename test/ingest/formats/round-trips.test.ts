/** What an episode that another program recorded keeps when it is exported in a two-way format and imported again. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Event } from '../../../ingest/events/events.ts';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { exportEpisodes } from '../../../ingest/files/export.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { groupBy, memoryLog } from '../support/memory-log.ts';
import type { Data } from './support/convert.ts';

const RECORDED = join(import.meta.dirname, 'recorded');
const FORMATS = ['openai-chat', 'atif', 'otel-genai'] as const;
/** A team with sub-agents, parallel tools and errors; a picture and a compaction; token ids; rewards; a simulated user. */
const SOURCES: readonly (readonly string[])[] = [
  [
    'claude-code/session.jsonl',
    'claude-code/agent-a06e09f9d58deb48d.jsonl',
    'claude-code/agent-a460b889c697c886b.jsonl',
  ],
  ['claude-code/compacted.jsonl'],
  ['codex/main.jsonl', 'codex/subagent.jsonl'],
  ['codex/resumed.jsonl'],
  ['pi/picture.jsonl'],
  ['inspect/log.jsonl'],
  ['prime-rl/episodes.jsonl'],
  ['rllm/episodes.jsonl'],
  ['tau2-bench/results.jsonl'],
  ['openhands/sdk.jsonl'],
];

let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'troupe-round-'));
});
afterAll(() => rm(scratch, { recursive: true }));

async function imported(paths: readonly string[], format?: string) {
  const memory = memoryLog();
  const { errors } = await importFiles(paths, { ...memory, ...(format ? { format } : {}) });
  expect(errors).toEqual([]);
  return memory.events;
}

/** The episode as this format writes it, read again. */
async function through(format: string, events: readonly Event[]): Promise<readonly Event[]> {
  const episodes = [
    ...groupBy(
      events.filter(({ key }) => key.startsWith('e/')),
      ({ key }) => key,
    ).values(),
  ];
  const lines: string[] = [];
  for await (const line of exportEpisodes(format, episodes)) lines.push(line);
  const path = join(scratch, `${format}.jsonl`);
  await writeFile(path, lines.join(''));
  return imported([path], format);
}

const partsIn = (content: unknown): Data[] => (Array.isArray(content) ? (content as Data[]) : []);
const textIn = (content: unknown): string =>
  typeof content === 'string'
    ? content
    : partsIn(content)
        .flatMap(({ type, content: text }) => (type === 'text' && typeof text === 'string' ? [text] : []))
        .join('\n');
const isImage = ({ type, modality }: Data): boolean => modality === 'image' || /image/.test(String(type));

/** Facts of episodes that no id is part of, as sorted texts. */
const FACTS: Readonly<Record<string, (of: (name: string) => Data[]) => unknown[]>> = {
  'id of the episode': (of) => [...new Set(of('episode.started').map(({ episode_id }) => episode_id))],
  'task id': (of) => [...new Set(of('episode.started').flatMap(({ task_id }) => (task_id == null ? [] : [task_id])))],
  'names of agents': (of) => [...new Set(of('agent.defined').map(({ name, agent_id }) => name ?? agent_id))],
  'parents of agents': (of) =>
    of('agent.defined').flatMap(({ parent_agent_id: parent }) => (parent ? ['has one'] : [])),
  'calls, each with its agent': (of) => of('generation.completed').map(({ agent_id }) => agent_id ?? null),
  'text of answers': (of) => of('generation.completed').map(({ choices }) => textIn((choices as Data[])[0]?.content)),
  reasoning: (of) =>
    of('generation.completed').flatMap(({ choices }) =>
      partsIn((choices as Data[])[0]?.content).flatMap(({ type, content }) =>
        type === 'reasoning' && content ? [content] : [],
      ),
    ),
  'tool calls with arguments': (of) => of('tool.called').map((one) => [one.name, one.arguments]),
  'results of tools, as text': (of) => of('tool.returned').map(({ output }) => textIn(output)),
  'status of results': (of) => of('tool.returned').map(({ status }) => status),
  'pictures in results': (of) =>
    of('tool.returned').flatMap(({ output }) =>
      partsIn(output)
        .filter(isImage)
        .map(() => 'picture'),
    ),
  tokens: (of) =>
    of('generation.completed').map(({ usage }) => {
      const { input_tokens: a, prompt_tokens: b, output_tokens: c, completion_tokens: d } = (usage ?? {}) as Data;
      return [a ?? b ?? null, c ?? d ?? null];
    }),
  'token ids': (of) =>
    of('generation.completed').flatMap(({ choices }) => (choices as Data[]).map(({ token_ids }) => token_ids ?? null)),
  model: (of) => of('generation.completed').map(({ response_model }) => response_model ?? null),
  'roles in inputs': (of) =>
    of('generation.requested').map(({ input }) => ((input ?? []) as Data[]).map(({ role }) => role)),
  'messages of users': (of) =>
    of('message.sent')
      .filter(({ role }) => role === 'user')
      .map(({ content }) => textIn(content)),
  reward: (of) =>
    of('feedback.recorded')
      .filter(({ name }) => name === 'reward')
      .map(({ value }) => value),
  'other feedback': (of) =>
    of('feedback.recorded')
      .filter(({ name }) => name !== 'reward')
      .map(({ name, value }) => [name, value]),
  'outcome and answer': (of) => of('episode.finished').map(({ outcome, answer }) => [outcome, answer ?? null]),
  'times of calls, exact': () => [],
};

const factsOf = (events: readonly Event[]): Map<string, string[]> => {
  const of = (name: string) => events.filter((event) => event.name === name).map(({ data }) => data as unknown as Data);
  const found = Object.entries(FACTS).map(([name, read]): [string, string[]] => [
    name,
    read(of).map(canonicalJson).sort(),
  ]);
  const times = events.filter(({ name }) => name === 'generation.completed').map(({ time }) => String(time));
  return new Map([...found, ['times of calls, exact', times.sort()]]);
};

it('docs/formats.md shows what of recorded episodes survives each way out and back', async () => {
  const kept = new Map(Object.keys(FACTS).map((name) => [name, new Map<string, [kept: number, of: number]>()]));
  for (const files of SOURCES) {
    const events = await imported(files.map((file) => join(RECORDED, file)));
    const before = factsOf(events);
    for (const format of FORMATS) {
      const after = factsOf(await through(format, events));
      for (const [name, values] of before) {
        if (values.every((value) => value === 'null' || value === '[null,null]')) continue;
        const [same, all] = kept.get(name)!.get(format) ?? [0, 0];
        kept.get(name)!.set(format, [same + Number(canonicalJson(values) === canonicalJson(after.get(name))), all + 1]);
      }
    }
  }
  const cell = (of: [number, number] | undefined): string =>
    of === undefined ? '' : of[0] === of[1] ? 'kept' : of[0] === 0 ? 'lost' : `in ${of[0]} of ${of[1]}`;
  const table = [...kept].map(([name, by]) => [name, ...FORMATS.map((format) => cell(by.get(format)))]);
  const docs = readFileSync(join(import.meta.dirname, '../../../docs/formats.md'), 'utf8');
  const shown = /\| of a recorded episode[^\n]*\n[^\n]*\n((?:\|[^\n]*\n)+)/.exec(docs)?.[1] ?? '';
  const rows = shown
    .trimEnd()
    .split('\n')
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((one) => one.trim()),
    );
  expect(rows).toEqual(table);
}, 60_000);
