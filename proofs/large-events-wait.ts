/**
 * Proof that events which cost much hold nobody up: 21 of 8 MB, with 700,000 members each, wait in the log for a projector that begins; an
 * event of another key that is sent then is readable within 20 s, also where the projector, PostgreSQL and the API share a part of a processor.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openPool } from '../store/db/pool.ts';
import { startPostgres } from './postgres.ts';
import { checklist, type Outcome, type Proof, type Setting } from './proof.ts';
import { throttle, withChildren } from './throttle.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const EVENTS = 21;
const OBJECTS = 8;
const MEMBERS = 87_500;
const GOAL_S = 20;
/** Of one processor, for all processes together. */
const SHARE = 0.5;
const PATIENCE_S = 900;

const event = (episode_id: string, unmapped: string): string =>
  `{"specversion":"1.0","source":"/proof","type":"troupe.message.sent.v1","time":"2026-11-27T10:00:00Z","id":"${episode_id}",` +
  `"data":{"episode_id":"${episode_id}","message_id":"m","content":"here","unmapped":${unmapped}}}`;

/** 8 MB; numbers that differ stay large when they are stored. */
const object = (o: number): string =>
  `{${Array.from({ length: MEMBERS }, (_, i) => `"${(o * MEMBERS + i).toString(36)}":${(i * 7919 + o) % 9973}`)}}`;
const LARGE = `{${Array.from({ length: OBJECTS }, (_, o) => `"o${o}":${object(o)}`)}}`;

export const proof: Proof = {
  name: 'large-events-wait',
  needs: [],
  async run({ short, scratch, say }: Setting): Promise<Outcome> {
    const { lines, check, passed } = checklist(say);
    const folder = join(scratch, 'postgres');
    const postgres = await startPostgres(folder, 'large');
    const db = openPool(postgres.url('large'));
    const processes: TroupeProcess[] = [];
    const start = async (role: string): Promise<TroupeProcess> => {
      const one = await runTroupe(role, { home: join(scratch, 'home'), env: { DATABASE_URL: postgres.url('large') } });
      processes.push(one);
      return one;
    };
    const rows = async (like: string) =>
      (await db.query('select from facts.messages where episode_id like $1', [like])).rows.length;
    try {
      const api = await start('serve');
      const send = async (body: string): Promise<void> => {
        const headers = { 'content-type': 'application/cloudevents+json' };
        const answer = await fetch(`${api.url}/v1/events`, { method: 'POST', headers, body });
        if (!answer.ok) throw new Error(`an event was answered ${answer.status}: ${await answer.text()}`);
      };
      const postmaster = Number.parseInt(readFileSync(join(folder, 'cluster', 'postmaster.pid'), 'utf8'), 10);
      for (const share of short ? [SHARE] : [1, SHARE]) {
        const named = share === 1 ? 'whole' : 'part';
        for (let i = 0; i < EVENTS; i++) await send(event(`${named}-${i}`, LARGE));
        const projector = await start('project');
        const held = share === 1 ? null : throttle(withChildren([projector.pid(), api.pid(), postmaster]), share);
        try {
          const began = performance.now();
          const seconds = () => (performance.now() - began) / 1000;
          const id = `small-${named}`;
          await send(event(id, '{}'));
          while ((await fetch(`${api.url}/v1/episodes/${id}`)).status !== 200 && seconds() < PATIENCE_S)
            await sleep(100);
          const how = held === null ? 'all processors' : `${share} of a processor, by ${held.by}`;
          const waiting = EVENTS - (await rows(`${named}-%`));
          check(
            `with ${how}: readable ${seconds().toFixed(1)} s after it was sent, before ${waiting} of the ${EVENTS}`,
            seconds() <= GOAL_S && waiting > 0,
          );
        } finally {
          held?.release();
        }
        if (short) continue;
        const all = async () => (await rows(`${named}-%`)) === EVENTS;
        const until = performance.now() + PATIENCE_S * 1000;
        while (!(await all()) && performance.now() < until) await sleep(500);
        check(`all ${EVENTS} are in the tables in the end`, await all());
        await projector.end('SIGTERM');
      }
      const { rows: letters } = await db.query('select from troupe.dead_letters');
      check('none became a dead letter', letters.length === 0);
    } catch (error) {
      check(`${(error as Error).message}; ${processes.map((one) => one.output()).join('\n')}`, false);
    } finally {
      for (const one of processes) await one.end('SIGKILL');
      await db.close();
      await postgres.stop();
    }
    return { ok: passed(), lines };
  },
};
