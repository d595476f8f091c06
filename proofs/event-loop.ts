/**
 * Proof that no request holds up the others: `troupe run serve` as a person starts it, shapes that cost much and generated ones, and how
 * long each kept the server's event loop. Other programs of the machine delay it too: each shape is sent several times and its least
 * delay counts, and an idle process beside the server says how long this machine delays a loop that has nothing to do.
 */
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { type Draw, drawing } from './draw.ts';
import { generated, type Shape, shapesByHand } from './event-loop-shapes.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const PROBE = join(import.meta.dirname, 'loop-probe.mjs');
const GOAL_MS = 50;
/** A machine that other programs share delays any process so long. */
const FAILS_MS = 250;
const HANGS_MS = 30_000;
const EPISODE = 'long';

type Measured = { readonly name: string; readonly delay: number; readonly took: number; readonly status: number };

export const proof: Proof = {
  name: 'event-loop',
  needs: [],
  async run({ scratch, short, say }: Setting): Promise<Outcome> {
    const [socket, idle] = [join(scratch, 'loop.sock'), join(scratch, 'idle.sock')];
    const env = { NODE_OPTIONS: `--import ${pathToFileURL(PROBE)}`, LOOP_PROBE: socket, LOOP_PROBE_ROLE: 'serve' };
    const home = join(scratch, 'home');
    const processes: TroupeProcess[] = [];
    const beside = spawn(process.execPath, ['--import', PROBE, '-e', 'setInterval(() => {}, 1000)', 'serve'], {
      env: { ...process.env, ...env, NODE_OPTIONS: '', LOOP_PROBE: idle },
      stdio: 'ignore',
    });
    try {
      const server = await runTroupe('serve', { home, env });
      processes.push(server);
      const projector = await runTroupe('project', { home, env: {} });
      processes.push(projector);
      await fill(server.url);
      const machine: number[] = [];
      const measure = async (shape: Shape): Promise<Measured> => {
        await Promise.all([longest(socket), longest(idle)]);
        const began = performance.now();
        const status = await send(server.url, shape);
        const took = performance.now() - began;
        const [delay, noise] = await Promise.all([longest(socket), longest(idle)]);
        machine.push(noise);
        return { name: shape.name, delay, took, status };
      };
      const least = async (shape: Shape, times: number): Promise<Measured> => {
        const all: Measured[] = [];
        for (let i = 0; i < times; i++) {
          all.push(await measure(shape));
          if (all.at(-1)!.delay < GOAL_MS / 2) break;
        }
        return all.reduce((a, b) => (a.delay <= b.delay ? a : b));
      };
      const measured: Measured[] = [];
      for (const shape of shapesByHand(EPISODE)) measured.push(await least(shape, 5));
      const draw: Draw = drawing(7);
      const count = short ? 200 : 10_000;
      for (let i = 0; i < count; i++) measured.push(await least(generated(draw, i), 5));
      return judged(measured, machine, { count, say });
    } finally {
      for (const one of processes) await one.end('SIGTERM');
      beside.kill();
    }
  },
};

function judged(
  measured: readonly Measured[],
  machine: readonly number[],
  { count, say }: { readonly count: number; readonly say: Setting['say'] },
): Outcome {
  const worst = measured.toSorted((a, b) => b.delay - a.delay);
  const lines = worst
    .slice(0, 15)
    .map(
      ({ name, delay, took, status }) =>
        `told  ${delay.toFixed(0).padStart(4)} ms  ${status}  answered in ${took.toFixed(0)} ms  ${name}`,
    );
  const noise = machine.toSorted((a, b) => a - b);
  const share = (part: number) => noise[Math.floor(part * (noise.length - 1))]!.toFixed(0);
  lines.push(
    `told  an idle process beside it was delayed by ${share(0.5)} ms (p50), ${share(0.9)} ms (p90), ${share(1)} ms (longest) a request`,
  );
  const above = measured.filter(({ delay }) => delay > GOAL_MS).length;
  lines.push(
    `told  ${measured.length} requests, ${count} of them generated; ${above} kept the loop for more than ${GOAL_MS} ms`,
  );
  const failed = measured.filter(({ delay }) => delay > FAILS_MS);
  lines.push(`${failed.length === 0 ? 'ok' : 'NOT OK'}  none kept the loop for more than ${FAILS_MS} ms`);
  const wrong = measured.filter(({ status }) => status === 0 || status >= 500);
  for (const { name, status } of wrong.slice(0, 5))
    lines.push(`NOT OK  ${status === 0 ? 'no answer' : status}: ${name}`);
  lines.push(`${wrong.length === 0 ? 'ok' : 'NOT OK'}  every one was answered, and none with 500 or more`);
  for (const line of lines) say(line);
  return { ok: lines.every((line) => !line.startsWith('NOT OK')), lines };
}

/** The longest delay of that loop since it was asked last, in milliseconds. */
async function longest(socket: string): Promise<number> {
  return Number(await text(connect(socket)));
}

/** The status; 0 where no answer came in time. */
async function send(url: string, { method, path, headers = {}, body }: Shape): Promise<number> {
  try {
    const answer = await fetch(`${url}${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: body as never }),
      signal: AbortSignal.timeout(HANGS_MS),
    });
    await answer.arrayBuffer();
    return answer.status;
  } catch {
    return 0;
  }
}

/** An episode of 1,000 steps of 10 KB with tokens each, 500 small ones, and 60 with 200 KB of tags each. */
async function fill(url: string): Promise<void> {
  const event = (id: string, name: string, data: object) => ({
    specversion: '1.0',
    type: `troupe.${name}.v1`,
    source: '/proof',
    id,
    data,
  });
  const post = async (events: readonly object[]): Promise<void> => {
    const answer = await fetch(`${url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: events.map((one) => JSON.stringify(one)).join('\n'),
    });
    if (!answer.ok) throw new Error(`The events were answered ${answer.status}: ${await answer.text()}`);
  };
  const tokens = Array.from({ length: 500 }, (_, i) => i);
  await post([event('start', 'episode.started', { episode_id: EPISODE })]);
  for (let from = 0; from < 1000; from += 100)
    await post(
      Array.from({ length: 100 }, (_, i) =>
        event(`call-${from + i}`, 'generation.completed', {
          episode_id: EPISODE,
          call_id: `c${from + i}`,
          agent_id: 'a',
          choices: [{ index: 0, content: `${from + i} ${'x'.repeat(10_000)}`, token_ids: tokens }],
        }),
      ),
    );
  for (const [task_id, count, length] of [
    ['small', 500, 500],
    ['wide', 60, 200_000],
  ] as const)
    await post(
      Array.from({ length: count }, (_, i) =>
        event(`${task_id}-${i}`, 'episode.started', {
          episode_id: `${task_id}-${i}`,
          task_id,
          tags: { text: 'x'.repeat(length) },
        }),
      ),
    );
  for (const deadline = performance.now() + 120_000; performance.now() < deadline; await sleep(250)) {
    const one = (await (await fetch(`${url}/v1/episodes/${EPISODE}`)).json()) as {
      readonly episode?: { readonly steps: number };
    };
    const page = (await (await fetch(`${url}/v1/episodes?task_id=small&limit=500`)).json()) as {
      readonly items: readonly unknown[];
    };
    const wide = await fetch(`${url}/v1/episodes/wide-59`);
    if (one.episode?.steps === 1000 && page.items.length === 500 && wide.ok) return;
  }
  throw new Error('The events were not in the tables after 120 s.');
}
