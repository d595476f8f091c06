/**
 * Proof that the files of every foreign format arrive as a person imports them: by the command, each format into an empty project of
 * its own, against the counts beside the files; a bad file gives exit code 3 and every refusal by name; and all of them together,
 * in any order and again, change no checksum.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { type Context, withContext } from '../cli/context.ts';
import { checksum } from '../store/projecting/rebuilding/checksum.ts';
import { type Draw, drawing } from './draw.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

/** What the counts beside the files are called there. */
type Beside = {
  readonly files: readonly string[];
  readonly bad?: Readonly<Record<string, string>>;
  readonly tasks: number;
  readonly trajectories: number;
  readonly agents: number;
  readonly steps: number;
  readonly tool_calls: number;
  readonly scores?: number;
  readonly labels?: number;
};

/** How many records of each bad file are refused, read from the words beside it; one that is not named here is kept whole. */
const REFUSED: Readonly<Record<string, number>> = {
  'otel-genai/bad-ids.json': 3,
  'otel-genai/bad-truncated.json': 1,
  'traceloop/bad-gap.json': 1,
  'langfuse/bad-batch.json': 3,
  'openai-agents/bad-items.json': 3,
  'langsmith/bad-runs.json': 3,
  'autogen/bad-message.json': 2,
  'crewai/bad-events.json': 2,
  'agentscope/bad-roles.jsonl': 2,
  'agentverse/bad-results.jsonl': 2,
  'm500/bad-rows.jsonl': 2,
  'mas-gpt/bad-gen.json': 2,
  'mast/bad-mad.json': 2,
  'who-when/bad-step.json': 1,
  'swe-agent/bad-step.json': 2,
  'swe-agent/bad-cut.json': 1,
  'swe-bench/bad-predictions.jsonl': 2,
  'swe-dev/bad-infer.jsonl': 2,
  'multiagentbench/bad-results.jsonl': 2,
  'openai-chat/bad-chat.jsonl': 3,
  'sharegpt/bad-conversations.json': 3,
  'atif/bad-steps.json': 3,
  'atif/bad-call.json': 1,
  // Arguments that cannot be parsed are kept as text.
  'xlam/bad-train.json': 1,
  'agent-lightning/bad-events.jsonl': 1,
  'redel/bad-session': 1,
};
const ROOT = join(import.meta.dirname, '..');

const RECORDED = join(ROOT, 'test/ingest/formats/recorded');
/** Files of further formats, with the counts that the tests beside them explain. */
type Written = {
  readonly format: string;
  readonly files: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
  /** Calls that failed and have no step. */
  readonly silent?: number;
};
const WRITTEN: readonly Written[] = [
  {
    format: 'weave',
    files: ['weave/team.jsonl'],
    counts: { tasks: 4, episodes: 5, agents: 2, calls: 8, tool_calls: 3, feedback: 2 },
    silent: 1,
  },
  {
    format: 'weave',
    files: ['weave/evaluation.jsonl'],
    counts: { tasks: 3, episodes: 3, agents: 2, calls: 6, tool_calls: 1, feedback: 6 },
  },
  {
    format: 'are',
    files: ['are/trace.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 1, calls: 3, tool_calls: 3, feedback: 1 },
  },
  { format: 'are', files: ['are/lite.jsonl'], counts: { episodes: 1, calls: 3, tool_calls: 3 } },
  { format: 'maslab', files: ['maslab/debate.jsonl'], counts: { tasks: 3, episodes: 3, calls: 0 } },
  {
    format: 'agentboard',
    files: ['agentboard/rooms.jsonl'],
    counts: { tasks: 2, episodes: 2, agents: 1, calls: 5, feedback: 9 },
  },
  { format: 'verl', files: ['verl/sessions.jsonl'], counts: { tasks: 2, episodes: 3, calls: 4 } },
  {
    format: 'prime-rl',
    files: ['prime-rl/episodes.jsonl'],
    counts: { tasks: 1, episodes: 2, agents: 2, calls: 5, steps: 4, tool_calls: 2 },
    silent: 1,
  },
  {
    format: 'rllm',
    files: ['rllm/episodes.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 2, calls: 3, tool_calls: 1 },
  },
  { format: 'rllm', files: ['rllm/logged.jsonl'], counts: { tasks: 2, episodes: 2, calls: 3 } },
  {
    format: 'openhands',
    files: ['openhands/early.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 2, calls: 4, tool_calls: 4 },
  },
  {
    format: 'openhands',
    files: ['openhands/sdk.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 1, calls: 2, tool_calls: 3 },
  },
  {
    format: 'codex',
    files: ['codex/main.jsonl', 'codex/subagent.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 2, calls: 5, tool_calls: 5 },
  },
  {
    format: 'tau2-bench',
    files: ['tau2-bench/results.jsonl'],
    counts: { tasks: 2, episodes: 2, agents: 2, calls: 4, tool_calls: 6 },
  },
  {
    format: 'adp',
    files: ['adp/trajectories.jsonl'],
    counts: { tasks: 2, episodes: 2, calls: 5, tool_calls: 4, feedback: 3 },
  },
  {
    format: 'langfuse',
    files: ['langfuse/observations.jsonl', 'langfuse/scores.jsonl', 'langfuse/traces.jsonl'],
    counts: { tasks: 1, episodes: 1, calls: 2, feedback: 2 },
  },
  {
    format: 'inspect',
    files: ['inspect/log.jsonl'],
    counts: { tasks: 1, episodes: 1, agents: 2, calls: 4, tool_calls: 5, feedback: 1 },
  },
];
/** Two commands at a time: most of a command is its start. */
const LANES = 2;

export const proof: Proof = {
  name: 'files-arrive',
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const data = process.env.TROUPE_DATA;
    if (!data)
      return { ok: true, lines: [], skipped: ['TROUPE_DATA does not name a folder with samples of the formats'] };
    const samples = join(data, 'samples');
    const { formats } = JSON.parse(readFileSync(join(samples, 'expected.json'), 'utf8')) as {
      formats: Record<string, Beside>;
    };
    const home = join(scratch, 'home');
    const project = (name: string) => projectIn(home, name);
    const random = drawing(1);
    const lines: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(lines.at(-1)!);
    };

    const arrives = async (format: string, beside: Beside): Promise<void> => {
      const at = project(format.replaceAll('-', '_'));
      const paths = beside.files.map((file) => join(samples, format, file));
      const { tasks, trajectories, agents, steps, tool_calls, scores, labels } = beside;
      const counts = { tasks, episodes: trajectories, agents, calls: steps, tool_calls, feedback: labels ?? scores };
      const first = await at.import(paths);
      const { errors, ...reported } = first.report;
      const holds = Object.entries({ ...counts, format }).every(([name, value]) => reported[name] === value);
      check(`${format}: ${JSON.stringify(counts)}`, holds && first.code === 0 && errors.length === 0, first);
      const rows = await at.rows();
      const { tasks: _, agents: __, ...counted } = counts;
      check(`${format}: as many rows can be asked for`, JSON.stringify(rows) === JSON.stringify(counted), rows);
    };
    const refused = async (format: string, file: string, words: string): Promise<void> => {
      const at = project(`${format}-${file}`.replaceAll(/[^a-z0-9]+/g, '_'));
      const { code, report } = await at.import([join(samples, format, file)]);
      const count = REFUSED[`${format}/${file}`] ?? 0;
      const named = report.errors.every(({ code, expected }) => code !== '' && expected !== '');
      const waiting = await at.deadLetters();
      const fine =
        code === (count > 0 ? 3 : 0) && report.errors.length === count && report.events.rejected === count && named;
      const what = `${format}/${file}: ${count} refused, exit code ${count > 0 ? 3 : 0}, ${report.events.accepted} events kept`;
      check(what, fine && waiting === count, { words, code, waiting, report });
    };
    const written = async ({ format, files, counts, silent = 0 }: Written): Promise<void> => {
      const [first] = files;
      const at = project(first!.replaceAll(/[^a-z0-9]+/g, '_'));
      const { code, report } = await at.import(files.map((file) => join(RECORDED, file)));
      const holds = Object.entries({ ...counts, format }).every(([name, value]) => report[name] === value);
      check(`${first}: ${JSON.stringify(counts)}`, holds && code === 0 && report.errors.length === 0, report);
      const { episodes, calls, tool_calls, feedback } = report;
      const rows = await at.rows();
      const counted = { episodes, calls: (calls as number) - silent, tool_calls, feedback };
      check(`${first}: as many rows can be asked for`, JSON.stringify(rows) === JSON.stringify(counted), rows);
    };
    const all = async (): Promise<void> => {
      const jobs = Object.entries(formats).flatMap(([format, beside]) => [
        () => arrives(format, beside),
        ...Object.entries(beside.bad ?? {}).map(
          ([file, words]) =>
            () =>
              refused(format, file, words),
        ),
      ]);
      await inLanes([...jobs, ...WRITTEN.map((one) => () => written(one))]);
      const paths = [
        ...Object.entries(formats).flatMap(([format, { files }]) => files.map((file) => join(samples, format, file))),
        ...WRITTEN.flatMap(({ files }) => files.map((file) => join(RECORDED, file))),
      ];
      const [one, other] = [project('in_order'), project('shuffled')];
      const [first] = await Promise.all([one.import(paths), other.import(shuffled(paths, random))]);
      const sum = await one.checksum();
      const what = `${paths.length} files of all formats in one project`;
      check(`${what}, in two orders: the same checksums`, sum === (await other.checksum()), first);
      const { code, report } = await one.import(shuffled(paths, random));
      const same = code === 0 && report.events.accepted === 0 && sum === (await one.checksum());
      check(`${what}, shuffled once more: nothing new, the same checksums`, same, report);
    };
    const { DATABASE_URL: elsewhere } = process.env;
    delete process.env.DATABASE_URL;
    try {
      // The embedded server runs as long as somebody works with it: here from the first command to the last.
      await withContext({ home }, all);
    } finally {
      if (elsewhere !== undefined) process.env.DATABASE_URL = elsewhere;
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

type Report = {
  readonly events: { readonly accepted: number; readonly rejected: number };
  readonly errors: readonly { readonly code: string; readonly expected: string; readonly got: string }[];
} & Readonly<Record<string, unknown>>;

/** One project of a home, imported into by the command and read in this process. */
function projectIn(home: string, name: string) {
  const ask = <T>(work: (context: Context) => Promise<T>) =>
    withContext({ home, project: name }, work, { create: true });
  return {
    import: async (paths: readonly string[]): Promise<{ code: number; report: Report }> => {
      // The command refuses a project that does not exist.
      await ask(async () => {});
      const args = ['import', ...paths, '--home', home, '--project', name, '--json'];
      const child = spawn(process.execPath, ['--import', 'tsx', 'cli.ts', ...args], {
        cwd: ROOT,
        env: { ...process.env, NO_COLOR: '1' },
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
      if (!out.startsWith('{')) throw new Error(`troupe import ${paths.join(' ')} ended with ${code}: ${err.trim()}`);
      return { code: code as number, report: JSON.parse(out) as Report };
    },
    checksum: () => ask(async ({ db }) => JSON.stringify(await checksum(db))),
    rows: () =>
      ask(async ({ db }) => {
        const { rows } = await db.query<Record<string, number>>(
          `select (select count(*) from traj.episodes)::integer as episodes,
             (select count(distinct (episode_id, call_id)) from traj.steps)::integer as calls,
             (select count(*) from traj.tool_calls)::integer as tool_calls,
             (select count(*) from traj.feedback)::integer as feedback`,
        );
        return rows[0]!;
      }),
    deadLetters: () =>
      ask(async ({ db }) => {
        const { rows } = await db.query<{ n: number }>('select count(*)::integer as n from traj.dead_letters');
        return rows[0]!.n;
      }),
  };
}

/** The same items in an order that the stream draws. */
function shuffled<T>(items: readonly T[], { integer }: Draw): T[] {
  const rest = [...items];
  return items.map(() => rest.splice(integer(0, rest.length - 1), 1)[0]!);
}

async function inLanes(jobs: readonly (() => Promise<void>)[]): Promise<void> {
  const waiting = jobs.values();
  const lane = async (): Promise<void> => {
    for (const job of waiting) await job();
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}
