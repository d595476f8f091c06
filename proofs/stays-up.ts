/**
 * Proof that `troupe up` stays up: PostgreSQL and its keeper are killed and stopped for a while, and every role is killed at moments of its
 * start, also while the database is away. Nobody helps; the API must answer again by itself, with everything that it acknowledged.
 */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { drawing } from './draw.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { keepers, ROLES, rolePids, server, signal, startUp, statusOf, type Up, until } from './up.ts';

export const proof: Proof = {
  name: 'stays-up',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const { lines, check, passed } = checklist(say);
    const home = join(scratch, 'home');
    const up = startUp(home);
    try {
      await prove({ up, home, short, check });
    } catch (error) {
      check(`${error instanceof Error ? error.message : error}; the output of \`up\`: ${up.output()}`, false);
    } finally {
      for (const pid of [...server(home), ...keepers(home)]) signal(pid, 'SIGCONT');
      await up.end();
    }
    return { ok: passed(), lines };
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
    code === 1 && /Another `troupe up` runs/.test(second.output()),
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
