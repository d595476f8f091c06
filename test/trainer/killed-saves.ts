/** Kills a program that saves checkpoints, at random points, and looks at what is left each time. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { latestCheckpoint, listCheckpoints, loadCheckpoint } from '../../trainer/model/checkpoints/checkpoint.ts';
import { sweepTemporary } from '../../trainer/model/files/atomic.ts';
import { randomStream } from '../../trainer/tensor/random.ts';
import { compiledProgram } from '../support/program.ts';

export type KilledSaves = {
  /** Step of the latest checkpoint in the end: every kill but those before a first save adds at least one. */
  readonly step: number;
  /** Temporaries that sweeps found: kills that fell into a save. */
  readonly swept: number;
  /** What should not be, in words. */
  readonly wrong: readonly string[];
};

/**
 * Lets the program save in `folder` and kills it `kills` times. After each kill `latest` must load with all its hashes and
 * be as new as the program had reported, nothing visible may be damaged, and one sweep must leave nothing else.
 */
export async function killedSaves(folder: string, kills: number, seed: number): Promise<KilledSaves> {
  const { uniform } = randomStream(seed);
  const usual = { ms: 40 };
  const wrong: string[] = [];
  let step = 0;
  let swept = 0;
  for (let kill = 0; kill < kills; kill++) {
    const note = (what: string): void => void wrong.push(`kill ${kill}: ${what}`);
    const reported = await killAfter(folder, Math.floor(3 * uniform()), uniform(), usual);
    const latest = await latestCheckpoint(folder);
    if (latest) {
      const found = await loadCheckpoint(latest).catch((error: Error) => error.message);
      if (typeof found === 'string') note(found);
      else if (found.meta.step < reported)
        note(`latest is step ${found.meta.step}, and ${reported} was reported as saved`);
      else step = found.meta.step;
    } else if (reported > 0) note(`no latest, and step ${reported} was reported as saved`);
    const ids = await listCheckpoints(folder);
    for (const id of ids)
      await loadCheckpoint(join(folder, id)).catch((error: Error) => note(`${id}: ${error.message}`));
    swept += (await sweepTemporary(folder)).length;
    const left = (await readdir(folder)).filter((name) => name !== 'latest' && !ids.includes(name));
    if (left.length > 0) note(`a sweep left ${left}`);
    for (const id of ids) if (join(folder, id) !== latest) await rm(join(folder, id), { recursive: true });
  }
  return { step, swept, wrong };
}

/**
 * Kills the saving program a `part` of a save's usual time after its `saves`-th save; returns the last step it reported as
 * saved. A part and not a time, so that kills fall into saves on a busy machine too.
 */
async function killAfter(folder: string, saves: number, part: number, usual: { ms: number }): Promise<number> {
  const program = await compiledProgram(join(import.meta.dirname, 'checkpoint-loop.ts'));
  const child = spawn(process.execPath, [program, folder], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  let reported = 0;
  let lines = 0;
  let before = performance.now();
  for await (const line of createInterface({ input: child.stdout })) {
    reported = Number(line.split(' ')[1]);
    const now = performance.now();
    if (lines > 0) usual.ms = now - before;
    before = now;
    if (lines++ === saves) setTimeout(() => child.kill('SIGKILL'), part * usual.ms);
  }
  const [code, signal] = await ended;
  if (signal !== 'SIGKILL') throw new Error(`the saving program ended by itself with ${code}`);
  return reported;
}
