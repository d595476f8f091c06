/**
 * Proof that `troupe up` stays up: PostgreSQL and its keeper are killed and stopped for a while, and every role is killed at moments of its
 * start, also while the database is away. Nobody helps; the API must answer again by itself, with everything that it acknowledged.
 */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { YOUNG } from '../cli/children.ts';
import { drawing } from './draw.ts';
import type { Outcome, Proof, Setting } from './proof.ts';

const ROOT = join(import.meta.dirname, '..');
const ROLES = ['serve', 'project', 'judge', 'work'];
/** For the slowest machine: what is waited for comes much sooner. */
const PATIENCE_MS = 300_000;

export const proof: Proof = {
  name: 'stays-up',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const lines: string[] = [];
    const check = (what: string, fine: boolean): void => {
      lines.push(`${fine ? 'ok' : 'NOT OK'}  ${what}`);
      say(lines.at(-1)!);
    };
    const home = join(scratch, 'home');
    const up = startUp(home);
    try {
      await prove({ up, home, short, check });
    } catch (error) {
      check(`${error instanceof Error ? error.message : error}; \`up\` said: ${up.said()}`, false);
    } finally {
      for (const pid of [...server(home), ...keepers(home)]) signal(pid, 'SIGCONT');
      await up.end();
    }
    return { ok: lines.every((line) => line.startsWith('ok')), lines };
  },
};

type Scene = {
  readonly up: Up;
  readonly home: string;
  readonly short: boolean;
  readonly check: (what: string, fine: boolean) => void;
};

async function prove({ up, home, short, check }: Scene): Promise<void> {
  const awayMs = short ? 4000 : 60_000;
  const url = await up.url();
  const sent: string[] = [];
  const answersAgain = async (what: string): Promise<void> => {
    const began = performance.now();
    await until(async () => (await statusOf(`${url}/readyz`)) === 200, `${what}: /readyz is not 200`);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    const id = `after-${sent.length}`;
    await until(async () => await send(url, id), `${what}: no event is taken`);
    sent.push(id);
    const there = async () =>
      (await Promise.all(sent.map((one) => statusOf(`${url}/v1/episodes/${one}`)))).every((status) => status === 200);
    await until(there, `${what}: an acknowledged episode is not there`);
    check(`${what}: ready again after ${seconds} s, all ${sent.length} acknowledged episodes are there`, up.lives());
  };
  await answersAgain('started');

  const second = startUp(home);
  const code = await second.code();
  check(
    `a second \`up\` on the home ends with ${code} and says so`,
    code === 1 && /Another `troupe up` runs/.test(second.said()),
  );

  for (const how of ['SIGKILL', 'SIGSTOP'] as const) {
    const away = [...server(home), ...keepers(home)];
    for (const pid of away) signal(pid, how);
    await sleep(awayMs / 4);
    const killed = ROLES.flatMap((role) => rolePids(home, role));
    for (const pid of killed) signal(pid, 'SIGKILL');
    await sleep((awayMs * 3) / 4);
    for (const pid of away) signal(pid, 'SIGCONT');
    const what = how === 'SIGKILL' ? 'killed' : `stopped for ${awayMs / 1000} s`;
    await answersAgain(`PostgreSQL and its keeper ${what}, ${killed.length} roles killed meanwhile`);
  }

  const random = drawing(Number(process.env.TROUPE_SEED ?? 1));
  const times = short ? 2 : 12;
  let kills = 0;
  const killStarting = async (role: string): Promise<void> => {
    let last = 0;
    for (let time = 0; time < times; time++) {
      const pid = await until(
        async () => rolePids(home, role).find((one) => one !== last),
        `${role} is not started again`,
      );
      await sleep(random.integer(0, short ? 1500 : 3000));
      signal(pid, 'SIGKILL');
      kills++;
      last = pid;
    }
  };
  await Promise.all(ROLES.map(killStarting));
  await answersAgain(`${kills} kills of roles at moments of their start`);
  await until(async () => ROLES.every((role) => rolePids(home, role).length === 1), 'not every role runs once');
  check(`each of ${ROLES.join(', ')} runs once`, true);
  check(`\`up\` ends with 0 after SIGTERM`, (await up.end()) === 0);
}

type Up = {
  readonly url: () => Promise<string>;
  readonly code: () => Promise<number | null>;
  readonly lives: () => boolean;
  readonly said: () => string;
  readonly end: () => Promise<number | null>;
};

function startUp(home: string): Up {
  const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
  const args = ['--import', 'tsx', YOUNG, 'cli.ts', 'up', '--home', home, '--port', '0', '--json'];
  const child: ChildProcess = spawn(process.execPath, args, {
    cwd: ROOT,
    env: { ...env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [out, err] = ['', ''];
  child.stdout!.setEncoding('utf8').on('data', (text) => {
    out += text;
  });
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    err = `${err}${text}`.slice(-4000);
  });
  const lives = () => child.exitCode === null && child.signalCode === null;
  const gone = lives() ? once(child, 'close') : Promise.resolve();
  const code = async () => {
    await gone;
    return child.exitCode;
  };
  return {
    url: async () => {
      await until(async () => out.includes('\n') || !lives(), '`up` is not ready');
      return (JSON.parse(out.split('\n')[0]!) as { url: string }).url;
    },
    code,
    lives,
    said: () => err.trim(),
    end: () => {
      child.kill('SIGTERM');
      return code();
    },
  };
}

async function until<T>(look: () => Promise<T | undefined | false>, otherwise: string): Promise<T> {
  for (const deadline = performance.now() + PATIENCE_MS; performance.now() < deadline; await sleep(200)) {
    const found = await look();
    if (found) return found;
  }
  throw new Error(`${otherwise} within ${PATIENCE_MS / 1000} s`);
}

const statusOf = (url: string): Promise<number> =>
  fetch(url, { signal: AbortSignal.timeout(10_000) }).then(
    async (answer) => {
      await answer.arrayBuffer();
      return answer.status;
    },
    () => 0,
  );

const send = (url: string, episode_id: string): Promise<boolean> =>
  fetch(`${url}/v1/events`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify([
      { specversion: '1.0', type: 'troupe.episode.started.v1', source: '/proof', id: episode_id, data: { episode_id } },
    ]),
    signal: AbortSignal.timeout(10_000),
  }).then(
    ({ ok }) => ok,
    () => false,
  );

const signal = (pid: number, how: NodeJS.Signals): void => {
  try {
    process.kill(pid, how);
  } catch {
    // It is gone already.
  }
};

type Running = { readonly pid: number; readonly parent: number; readonly command: string };

const running = (): readonly Running[] =>
  spawnSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .stdout.split('\n')
    .flatMap((line) => {
      const [, pid, parent, command] = /^ *(\d+) +(\d+) (.*)$/.exec(line) ?? [];
      return pid === undefined ? [] : [{ pid: Number(pid), parent: Number(parent), command: command! }];
    });

const rolePids = (home: string, role: string): number[] =>
  running().flatMap(({ pid, command }) => (command.includes(` run ${role} --home ${home} `) ? [pid] : []));

const keepers = (home: string): number[] =>
  running().flatMap(({ pid, command }) =>
    /keeper\.[jt]s/.test(command) && command.includes(`"${home}"`) ? [pid] : [],
  );

/** The server's first process and its children. */
function server(home: string): number[] {
  try {
    const first = Number.parseInt(readFileSync(join(home, 'data', 'cluster', 'postmaster.pid'), 'utf8'), 10);
    return [first, ...running().flatMap(({ pid, parent }) => (parent === first ? [pid] : []))];
  } catch {
    return [];
  }
}
