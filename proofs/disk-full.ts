/**
 * Proof that a full disk is waited out: the disk of an embedded home is filled while events come, and the roles, PostgreSQL and its keeper
 * are killed on it. Nothing acknowledged is lost, errors are sentences, and all goes on by itself once there is space.
 */
import { spawnSync } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '../store/db/database.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { openHistory } from './history.ts';
import { judged, startLoad } from './kept.ts';
import { NO_DISK, ownDisk } from './own-disk.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { keepers, ROLES, rolePids, server, signal, stackTraces, startUp, statusOf, until } from './up.ts';

const MIB = 512;
/** How long PostgreSQL is away before it is taken to stay so. */
const AWAY_MS = 30_000;
/** How long it stays full, in each of the two turns. */
const FULL_MS = { short: 8000, full: 60_000 };

export const proof: Proof = {
  name: 'disk-full',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const { lines, check, passed } = checklist(say);
    const home = join(scratch, 'home');
    const disk = ownDisk(home, MIB);
    if (disk === null) return { ok: true, lines: [], skipped: [NO_DISK] };
    const seed = process.env.TROUPE_SEED === undefined ? randomInt(2 ** 31) : Number(process.env.TROUPE_SEED);
    say(`   replay: TROUPE_SEED=${seed} npm run proofs -- disk-full${short ? '' : ' --full'}`);
    const fullMs = short ? FULL_MS.short : FULL_MS.full;
    const up = startUp(home);
    try {
      const url = await up.url();
      const history = openHistory(join(scratch, 'history.jsonl'));
      const load = startLoad(url, history, randomStream(seed).uniform);
      try {
        await until(async () => load.acknowledged() > 20, 'no event is taken');
        for (const kills of [false, true]) {
          const what = kills ? 'filled, and everything on it killed' : 'filled';
          history.kill(what);
          disk.fill();
          const refusals = await untilRefused(url);
          const troupe = doctor(home);
          if (kills)
            for (const pid of [...ROLES.flatMap((role) => rolePids(home, role)), ...server(home), ...keepers(home)])
              signal(pid, 'SIGKILL');
          await sleep(fullMs);
          check(
            `the disk ${what}: events are refused with ${refusals.status} ${refusals.code} (${refusals.detail}), to be sent again after ${refusals.after} s`,
            refusals.status === 503 && refusals.code === 'disk_full' && Number(refusals.after) > 0,
          );
          check(
            `\`doctor\` ends with ${troupe.code} and says: ${troupe.disk}`,
            troupe.code === 1 && troupe.disk.startsWith('✗') && !troupe.text.includes('\n    at '),
          );
          check('`up` is there', up.lives());
          disk.free();
          const began = performance.now();
          const before = load.acknowledged();
          await until(async () => load.acknowledged() > before, `${what}: no event is taken`);
          await until(async () => (await statusOf(`${url}/readyz`)) === 200, `${what}: /readyz is not 200`);
          check(`with space again it is ready after ${((performance.now() - began) / 1000).toFixed(1)} s`, true);
        }
        await until(async () => ROLES.every((role) => rolePids(home, role).length === 1), 'not every role runs once');
        // So many that the history says something, also on a slow machine.
        await until(async () => load.acknowledged() > 150, 'too few requests are acknowledged');
      } finally {
        await load.stop();
      }
      const { db, close } = await openDatabase({ home });
      for (const [what, fine] of await judged({ db, history, kafka: null, kills: 2 }).finally(close)) check(what, fine);
      const [trace] = stackTraces(join(home, 'run'));
      check(`the logs of the roles have no stack trace${trace === undefined ? '' : `: ${trace}`}`, trace === undefined);
      check(`the output of \`up\` has none either`, !/^ {4}at /m.test(up.output()));
      check('`up` ends with 0 after SIGTERM', (await up.end()) === 0);
      disk.fill();
      const late = startUp(join(home, 'another'));
      const code = await late.code();
      const last = late.output().split('\n').at(-1)!;
      check(
        `\`up\` in a new home on the full disk ends with ${code}: ${last}`,
        code !== 0 && /^troupe: The disk of .* is full: .*\.$/.test(last),
      );
    } catch (error) {
      check(`${error instanceof Error ? error.message : error}; the output of \`up\`: ${up.output()}`, false);
      for (const line of serverSaid(home)) say(`   ${line}`);
    } finally {
      disk.free();
      if (up.lives()) await up.end();
      for (const pid of [...keepers(home), ...server(home)]) signal(pid, 'SIGKILL');
      disk.remove();
    }
    return { ok: passed(), lines };
  },
};

/** The last of the log of PostgreSQL, and which of its processes there are. */
const serverSaid = (home: string): string[] => [
  ...readFileSync(join(home, 'run', 'postgres.log'), 'utf8')
    .split('\n')
    .slice(-30),
  ...spawnSync('ps', ['-eo', 'pid,ppid,stat,etime,args'], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter((line) => line.includes('postgres') && (line.includes(home) || / 1 +\S+ +\S+ postgres:/.test(line))),
];

/**
 * The first answer to an event that does not fit any more: what is written ahead has some space left. Where PostgreSQL could not write ahead it
 * starts again, and is away meanwhile; it stays away where the disk has no space for its lock file either.
 */
function untilRefused(url: string) {
  let n = 0;
  let away: number | null = null;
  return until(async () => {
    const id = `big-${n++}`;
    const data = { episode_id: 'big', message_id: id, content: randomText() };
    const answer = await fetch(`${url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify([{ specversion: '1.0', type: 'troupe.message.sent.v1', source: '/big', id, data }]),
      signal: AbortSignal.timeout(60_000),
    }).catch(() => null);
    if (answer === null) return false;
    const { code = '', detail = '' } = (await answer.json()) as { readonly code?: string; readonly detail?: string };
    const refused = { status: answer.status, code, detail, after: answer.headers.get('retry-after') };
    if (answer.status >= 400 && code !== 'unreachable') return refused;
    away = code === 'unreachable' ? (away ?? performance.now()) : null;
    return away !== null && performance.now() - away > AWAY_MS && refused;
  }, 'events are taken on a full disk');
}

/** A megabyte that does not compress. */
const randomText = (): string => Array.from({ length: 70_000 }, () => Math.random().toString(36).slice(2)).join('');

function doctor(home: string): { readonly code: number | null; readonly text: string; readonly disk: string } {
  const args = ['--import', 'tsx', 'cli.ts', 'doctor', '--home', home];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, NO_COLOR: '1' },
    encoding: 'utf8',
  });
  const text = `${stdout}${stderr}`;
  return { code: status, text, disk: /^. disk:.*$/m.exec(text)?.[0] ?? 'nothing of a disk' };
}
