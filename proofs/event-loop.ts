/**
 * Proof that no request holds up the others: `troupe run serve` as a person starts it, shapes that cost much and generated ones, and how
 * long each kept the server's event loop: the processor time of its main thread in one turn, which other programs of the machine do not
 * lengthen much. Compiling and collecting garbage of earlier requests do: a shape is sent up to five times, and the least counts.
 */
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { type Draw, drawing } from './draw.ts';
import { fill, modelServer, tinyModel } from './event-loop-home.ts';
import { generated, type Shape, shapesByHand } from './event-loop-shapes.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { runTroupe, type TroupeProcess } from './troupe-process.ts';

const PROBE = join(import.meta.dirname, 'loop-probe.mjs');
const GOAL_MS = 50;
/** Without a processor a turn waits for the disk, say; looked at where an idle process beside it was not delayed too. */
const WAITS_MS = 250;
/** A shape is sent so often, until it took less than half. */
const TIMES = 5;
const HANGS_MS = 30_000;

/** The longest turn of a loop, in milliseconds of its thread's processor time and of the clock. */
type Turn = { readonly cpu: number; readonly wall: number };
type Measured = Turn & { readonly name: string; readonly idle: number; readonly took: number; readonly status: number };

export const proof: Proof = {
  name: 'event-loop',
  needs: [],
  async run({ scratch, short, say }: Setting): Promise<Outcome> {
    const [socket, idle] = [join(scratch, 'loop.sock'), join(scratch, 'idle.sock')];
    const env = { NODE_OPTIONS: `--import ${pathToFileURL(PROBE)}`, LOOP_PROBE: socket, LOOP_PROBE_ROLE: 'serve' };
    const home = join(scratch, 'home');
    const processes: TroupeProcess[] = [];
    const models = await modelServer();
    const beside = spawn(process.execPath, ['--import', PROBE, '-e', 'setInterval(() => {}, 1000)', 'serve'], {
      env: { ...process.env, ...env, NODE_OPTIONS: '', LOOP_PROBE: idle },
      stdio: 'ignore',
    });
    try {
      const upstreams = {
        main: { base_url: models.url, models: ['*'] },
        ids: { base_url: models.url, token_ids: 'vllm' },
      };
      const server = await runTroupe('serve', { home, env: { ...env, TROUPE_UPSTREAMS: JSON.stringify(upstreams) } });
      processes.push(server);
      const projector = await runTroupe('project', { home, env: {} });
      processes.push(projector);
      const model = await tinyModel(scratch);
      processes.push(await runTroupe('infer', { home, env: {}, args: ['--policy', 'tiny', '--model', model] }));
      await fill(server.url);
      const machine: number[] = [];
      const measure = async (shape: Shape): Promise<Measured> => {
        await Promise.all([longest(socket), longest(idle)]);
        const began = performance.now();
        const status = await send(server.url, shape);
        const took = performance.now() - began;
        const [turn, noise] = await Promise.all([longest(socket), longest(idle)]);
        machine.push(noise.wall);
        return { name: shape.name, ...turn, idle: noise.wall, took, status };
      };
      const least = async (shape: Shape): Promise<Measured> => {
        let found = await measure(shape);
        for (let i = 1; i < TIMES && found.cpu > GOAL_MS / 2; i++) {
          const next = await measure(shape);
          if (next.cpu < found.cpu) found = next;
        }
        return found;
      };
      const measured: Measured[] = [];
      for (const shape of shapesByHand()) measured.push(await least(shape));
      const draw: Draw = drawing(7);
      const count = short ? 200 : 10_000;
      for (let i = 0; i < count; i++) measured.push(await least(generated(draw, i)));
      return judged(measured, machine, { count, say });
    } finally {
      for (const one of processes) await one.end('SIGTERM');
      beside.kill();
      models.close();
    }
  },
};

function judged(
  measured: readonly Measured[],
  machine: readonly number[],
  { count, say }: { readonly count: number; readonly say: Setting['say'] },
): Outcome {
  const worst = measured.toSorted((a, b) => b.cpu - a.cpu);
  const lines = worst
    .slice(0, 15)
    .map(
      ({ name, cpu, wall, took, status }) =>
        `info  ${cpu.toFixed(0).padStart(4)} ms (${wall.toFixed(0)} ms of the clock)  ${status}  answered in ${took.toFixed(0)} ms  ${name}`,
    );
  const noise = machine.toSorted((a, b) => a - b);
  const share = (part: number) => noise[Math.floor(part * (noise.length - 1))]!.toFixed(0);
  lines.push(
    `info  an idle process beside it was delayed by ${share(0.5)} ms (p50), ${share(0.9)} ms (p90), ${share(1)} ms (longest) a request`,
  );
  lines.push(`info  ${measured.length} requests, ${count} of them generated`);
  const late = measured.filter(({ cpu }) => cpu > GOAL_MS);
  lines.push(
    `${late.length === 0 ? 'ok' : 'NOT OK'}  none kept the loop for more than ${GOAL_MS} ms of processor time`,
  );
  const waited = measured.filter(({ wall, idle }) => wall > WAITS_MS && idle < GOAL_MS);
  lines.push(`${waited.length === 0 ? 'ok' : 'NOT OK'}  none had the loop wait for more than ${WAITS_MS} ms`);
  const wrong = measured.filter(({ status }) => status === 0 || status >= 500);
  for (const { name, status } of wrong.slice(0, 5))
    lines.push(`NOT OK  ${status === 0 ? 'no answer' : status}: ${name}`);
  lines.push(`${wrong.length === 0 ? 'ok' : 'NOT OK'}  every one was answered, and none with 500 or more`);
  for (const line of lines) say(line);
  return { ok: lines.every((line) => !line.startsWith('NOT OK')), lines };
}

/** The longest delay of that loop since it was asked last, in milliseconds. */
async function longest(socket: string): Promise<Turn> {
  return JSON.parse(await text(connect(socket))) as Turn;
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
