/** Processes of ours that a command starts: the same program in another role. They end with whoever started them, even if that is killed. */
import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Config, SETTINGS, type SettingName } from '../../config.ts';
import { ERRORS, type ErrorCode, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, type NotNull, query, sql } from '../../store/db/query.ts';
import type { RoleLogs } from './role-logs.ts';

const PROGRAM = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../../cli.ts' : '../../cli.js', import.meta.url),
);

/**
 * How Node runs our processes. Room for young objects, in MiB: events and rows live for one batch, and in Node's 16 MiB many of them are
 * copied before they die, which takes a projector a fifth of its time. And few full collections of garbage, none of them for the sake of
 * a rest: work comes in bursts, and each such collection also drops optimised code that names something it found dead, which the next
 * burst optimises again. So the heap begins at a size, in MiB, that it reaches anyway.
 */
export const V8_FLAGS = ['--max-semi-space-size=32', '--no-memory-reducer', '--initial-heap-size=128'] as const;

/** What a role reports once it is ready. */
export type RoleFacts = { readonly role: string; readonly address?: string };

export type Child = {
  readonly name: string;
  readonly process: ChildProcess;
  /** Ends it by SIGTERM, or by the signal given; resolves when it is gone. */
  readonly stop: (signal?: NodeJS.Signals) => Promise<void>;
};

/** A role of ours; `ready` resolves once it works, and never for one that ends before. */
export type RoleChild = Child & { readonly ready: Promise<RoleFacts> };

/** The settings a role needs to work on the same project; the database address may hold a password, so it is never an argument. */
export type RoleSettings = {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Where its log goes; by default only its last words are kept. */
  readonly logs?: RoleLogs;
};

export const roleSettings = (config: Config): RoleSettings => ({
  args: ['--home', config.home, ...(config.origins.project === 'default' ? [] : ['--project', config.project])],
  env: {
    TROUPE_THREADS: String(config.threads),
    TROUPE_TRAININGS: String(config.trainings),
    ...(config.database_url === null ? {} : { DATABASE_URL: config.database_url }),
    ...(config.database_port === 0 ? {} : { TROUPE_DATABASE_PORT: String(config.database_port) }),
    ...kafkaEnvironment(config),
  },
});

/** Settings of Kafka as a process inherits them: a password never stands in its arguments. */
const kafkaEnvironment = (config: Config): Record<string, string> =>
  Object.fromEntries(
    (Object.keys(SETTINGS) as SettingName[])
      .filter((name) => name.startsWith('kafka_') && config[name] !== null)
      .map((name) => [SETTINGS[name].env, String(config[name])]),
  );

type Start = {
  readonly onDeath: (error: TroupeError) => void;
  /** The code of its own error, if it reported one. */
  readonly code?: () => ErrorCode;
  readonly stdin?: 'ignore' | 'pipe';
  readonly env?: Readonly<Record<string, string>>;
  /** Takes each line of its standard error. */
  readonly onLine?: (line: string) => void;
};

/** Starts `troupe run ROLE` in the same home and project. If it ends, the error has its last words and the code of its own error. */
export function startRole(
  role: string,
  { args, env, logs }: RoleSettings,
  more: readonly string[],
  onDeath: (error: TroupeError) => void,
): RoleChild {
  const name = `run ${role}`;
  let code: ErrorCode = 'internal';
  const program = [...process.execArgv, ...V8_FLAGS, PROGRAM, 'run', role, ...args, ...more, '--json'];
  const child = startProgram(name, program, {
    onDeath,
    env,
    code: () => code,
    ...(logs ? { onLine: (line) => logs(role, line) } : {}),
  });
  const ready = new Promise<RoleFacts>((resolve) =>
    createInterface({ input: child.process.stdout! }).on('line', (line) => {
      const reported = reportIn(line);
      if (reported.error !== undefined && Object.hasOwn(ERRORS, reported.error.code)) code = reported.error.code;
      if (reported.role !== undefined) resolve({ ...reported, role: reported.role });
    }),
  );
  return { ...child, ready };
}

/** Starts `troupe up` at any free port in the same home and project; `url` resolves once it answers. */
export function startUp(
  { args, env }: RoleSettings,
  onDeath: (error: TroupeError) => void,
): Child & { readonly url: Promise<string> } {
  const program = [...process.execArgv, PROGRAM, 'up', '--port', '0', ...args, '--json'];
  const child = startProgram('up', program, { onDeath, env });
  const url = new Promise<string>((resolve) =>
    createInterface({ input: child.process.stdout! }).on('line', (line) => {
      const reported = reportIn(line);
      if (reported.url !== undefined) resolve(reported.url);
    }),
  );
  return { ...child, url };
}

function reportIn(
  line: string,
): Partial<RoleFacts> & { readonly url?: string; readonly error?: { readonly code: ErrorCode } } {
  try {
    return JSON.parse(line) ?? {};
  } catch {
    return {};
  }
}

/**
 * Starts a program under this Node. It is no member of the terminal's group, so that Ctrl-C reaches only the one that started it,
 * who then stops it; if that one is killed, the channel to it breaks.
 */
export function startProgram(
  name: string,
  args: readonly string[],
  { onDeath, code = () => 'internal', stdin = 'ignore', env = {}, onLine }: Start,
): Child {
  const child = spawn(process.execPath, args, {
    stdio: [stdin, 'pipe', 'pipe', 'ipc'],
    env: { ...process.env, ...env, NO_COLOR: '1' },
    detached: true,
  });
  const words: string[] = [];
  createInterface({ input: child.stderr! }).on('line', (line) => {
    onLine?.(line);
    words.push(textOf(line));
    if (words.length > 20) words.shift();
  });
  // Its output may have no reader; unread it would block at a full pipe. A reader attached in the same turn misses nothing.
  child.stdout!.resume();
  let stopping = false;
  const ended = new Promise<void>((resolve) => {
    const end = (how: string) => {
      if (!stopping) onDeath(new TroupeError(code(), `The process \`${name}\` ended (${how})${lastWords(words)}`));
      resolve();
    };
    child.once('error', (error) => end(error.message));
    child.once('close', (code, signal) => end(signal ?? `exit code ${code}`));
  });
  return {
    name,
    process: child,
    stop: async (how = 'SIGTERM') => {
      stopping = true;
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(how);
      const hard = setTimeout(() => child.kill('SIGKILL'), 9000);
      await ended;
      clearTimeout(hard);
    },
  };
}

/** The sentence of a line of JSON, or the line. */
function textOf(line: string): string {
  try {
    const { msg } = JSON.parse(line) as { readonly msg?: unknown };
    return typeof msg === 'string' ? msg : line;
  } catch {
    return line;
  }
}

/** Its last output; if it printed an error of its own, that sentence. */
function lastWords(words: readonly string[]): string {
  const own = words.findLast((line) => line.startsWith('troupe: '));
  const reported = own ? own.slice('troupe: '.length) : words.slice(-5).join(' | ');
  return reported === '' ? '.' : `: ${reported}`;
}

/** A role that exits is noticed at once; on a processor at a quarter of its speed six that start together took over a minute. */
const START_PATIENCE_MS = 180_000;

/** Where a role that was started answers, once it does. */
export async function addressOf(
  db: Db,
  { name, process: { pid } }: Child,
  failure: () => TroupeError | null,
): Promise<string> {
  const deadline = performance.now() + START_PATIENCE_MS;
  while (performance.now() < deadline) {
    const failed = failure();
    if (failed) throw failed;
    const started = await firstOf(
      db,
      query
        .selectFrom('troupe.processes')
        .select('address')
        .where('pid', '=', pid ?? 0)
        .where('address', 'is not', null)
        .where('heartbeat_at', '>', sql<string>`clock_timestamp() - interval '10 seconds'`)
        .orderBy('started_at', 'desc')
        .limit(1)
        .$narrowType<{ address: NotNull }>(),
    );
    if (started) return started.address;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new TroupeError(
    'unreachable',
    `The process \`${name}\` did not start within ${START_PATIENCE_MS / 1000} s. Look at what else this machine does, and start again.`,
  );
}

/** Runs a program to its end. @throws TroupeError `internal` with its last words when it did not end well. */
export function runProgram(name: string, args: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, NO_COLOR: '1' },
    });
    let words = '';
    child.stderr.on('data', (chunk: Buffer) => {
      words = (words + chunk.toString()).slice(-500);
    });
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      code === 0
        ? resolve()
        : reject(
            new TroupeError('internal', `The program \`${name}\` ended (${signal ?? `exit code ${code}`}): ${words}`),
          ),
    );
  });
}
