/** A file may hold a part of a run: what it begins with is then no task of anyone, whichever part comes first. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { canonicalJson } from '../../../ingest/events/json.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';

const RECORDED = join(import.meta.dirname, 'recorded');
let scratch: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), 'troupe-parts-'));
});
afterAll(() => rm(scratch, { recursive: true }));

const linesOf = async (file: string): Promise<string[]> =>
  (await readFile(join(RECORDED, file), 'utf8')).trim().split('\n');
const lines = (...records: readonly object[]): string => records.map(canonicalJson).join('\n');

/** The texts of all tasks that these files define, imported one after the other, and of those that an episode plays. */
async function tasksOf(...texts: readonly string[]): Promise<{ defined: unknown[]; played: unknown[] }> {
  const memory = memoryLog();
  for (const [i, text] of texts.entries()) {
    const path = join(scratch, `${i}.json${text.startsWith('[') ? '' : 'l'}`);
    await writeFile(path, text);
    expect((await importFiles([path], memory)).errors).toEqual([]);
  }
  const data = memory.events.map((event) => ({ ...event.data, is: event.name }) as Record<string, unknown>);
  const defined = data.filter((one) => one.is === 'task.defined');
  const ids = new Set(data.flatMap((one) => (one.is === 'episode.started' ? [one.task_id] : [])));
  const queries = (of: typeof defined): unknown[] => [...new Set(of.map(({ query }) => query))];
  return { defined: queries(defined), played: queries(defined.filter(({ task_id: id }) => ids.has(id))) };
}

const entry = (status: string, task: string) => ({
  timestamp: '2026-09-10 10:00:01',
  task_name: task,
  task,
  agent: 'a',
  status,
});
const crewEvent = (n: number, type: string, data: object) => ({
  event_id: `e${n}`,
  emission_sequence: n,
  parent_event_id: null,
  timestamp: '2026-09-10T10:00:00Z',
  type,
  event_data: { agent_role: 'a', ...data },
});
const crewBatch = (...events: object[]) => ({ version: '1', batch_id: 'b', events });
const BEGUN = crewEvent(1, 'crew_kickoff_started', { inputs: {} });
const FIRST = crewEvent(2, 'task_started', { task_description: 'How far?' });
const SECOND = crewEvent(3, 'task_started', { task_description: 'Write it down.' });
const step = (step_id: number, source: string, message: string, more: object = {}) => ({
  step_id,
  source,
  message,
  ...more,
});
const harbor = (session_id: string, extra: object, ...steps: object[]) => ({
  schema_version: 'ATIF-v1.7',
  session_id,
  agent: { name: 'lead', version: '1', extra },
  steps,
});
const COPIED = { is_copied_context: true };
const ROOT = { id: 'a', traceId: 't', type: 'SPAN', name: 'run', startTime: '2026-09-10T10:00:00.000Z' };
const observation = (id: string, second: number, asked: string) => ({
  id,
  traceId: 't',
  type: 'GENERATION',
  name: 'answer',
  parentObservationId: 'a',
  startTime: `2026-09-10T10:00:0${second}.000Z`,
  endTime: `2026-09-10T10:00:0${second}.500Z`,
  model: 'm',
  input: [{ role: 'user', content: asked }],
  output: { role: 'assistant', content: 'Four.' },
});
const verlRow = (n: number, input: string) => ({ input, output: '4', gts: '4', score: 1, step: 1, uid: `u_0_${n}` });
const clineSaid = (role: string, text: string, ts: number) => ({ role, content: [{ type: 'text', text }], ts });
const said = (id: string, role: string, content: string, second: number) => ({
  id,
  name: role === 'user' ? 'user' : 'a',
  role,
  content,
  metadata: null,
  timestamp: `2026-09-10 10:00:0${second}.000`,
});

it.each([
  [
    'a later document of Harbor, which begins with a summary',
    lines(
      harbor('s-cont-1', { continuation_index: 1 }, step(1, 'user', 'So far: 3.', COPIED), step(2, 'agent', 'Four.')),
    ),
    lines(harbor('s', {}, step(1, 'user', 'How far?'), step(2, 'agent', 'Three.'))),
  ],
  [
    'a later batch of a crew',
    lines(crewBatch(SECOND, crewEvent(4, 'task_completed', {}))),
    lines(crewBatch(BEGUN, FIRST, SECOND, crewEvent(4, 'task_completed', {}))),
  ],
  [
    'the later lines of the log of a crew',
    lines(entry('completed', 'Write it down.'), entry('completed', 'Check.')),
    lines(entry('started', 'How far?'), entry('completed', 'How far?')),
  ],
  [
    'a later prompt of verl',
    lines(verlRow(1, 'user\nHow far?\nassistant\n4\nuser\nCheck.')),
    lines(verlRow(0, 'How far?')),
  ],
  [
    'observations of Langfuse without their root',
    lines(observation('c', 2, 'And back?')),
    lines(ROOT, observation('b', 1, 'How far?')),
  ],
  [
    'later messages of AgentScope',
    lines(said('2', 'assistant', '4', 2), said('3', 'user', 'And back?', 3)),
    lines(said('1', 'user', 'How far?', 1)),
  ],
  [
    'later messages of Cline',
    JSON.stringify([clineSaid('assistant', 'Four.', 2), clineSaid('user', 'And back?', 3)]),
    JSON.stringify([clineSaid('user', 'How far?', 1)]),
  ],
] as const)('%s: its text is no task', async (_, part, begin) => {
  expect(await tasksOf(part)).toEqual({ defined: [], played: [] });
  const whole = { defined: ['How far?'], played: ['How far?'] };
  expect(await tasksOf(part, begin)).toEqual(whole);
  expect(await tasksOf(begin, part)).toEqual(whole);
});

it('a session of Codex from which lines are missing has the task that it began with, once it is known', async () => {
  const all = await linesOf('codex/resumed.jsonl');
  const [head, middle, tail] = [all.slice(0, 4), all.slice(4, 24), all.slice(24)].map((some) => some.join('\n'));
  expect(await tasksOf(head!, tail!)).toEqual({ defined: [], played: [] });
  const whole = await tasksOf(all.join('\n'));
  expect(whole.defined).toHaveLength(1);
  expect(await tasksOf(head!, tail!, middle!)).toEqual(whole);
});

it.each([
  ['claude-code', 'agent-a06e09f9d58deb48d.jsonl', 'session.jsonl'],
  ['codex', 'subagent.jsonl', 'main.jsonl'],
])(
  'what an agent of %s asks another is no task, also where the file of that one comes first',
  async (format, child, main) => {
    const [part, whole] = await Promise.all([child, main].map((file) => linesOf(`${format}/${file}`)));
    expect(await tasksOf(part!.join('\n'))).toEqual({ defined: [], played: [] });
    expect(await tasksOf(part!.join('\n'), whole!.join('\n'))).toEqual(await tasksOf(whole!.join('\n')));
  },
);
