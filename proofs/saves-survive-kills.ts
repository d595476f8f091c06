/** Proof of P26: the program that saves checkpoints is killed at random points, and latest always loads with all its hashes. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { killedSaves } from '../test/trainer/killed-saves.ts';
import type { Proof } from './proof.ts';

export const proof: Proof = {
  name: 'saves-survive-kills',
  needs: [],
  async run({ short, scratch, say }) {
    const folder = join(scratch, 'checkpoints');
    await mkdir(folder);
    const kills = short ? 10 : 200;
    const { step, swept, wrong } = await killedSaves(folder, kills, 1);
    const checks: [string, boolean][] = [
      [`${kills} kills, and latest (step ${step}) loaded after each`, wrong.length === 0],
      [`${swept} kills fell into a save`, short || swept > 0],
      ...wrong.map((what): [string, boolean] => [what, false]),
    ];
    const lines = checks.map(([what, fine]) => `${fine ? 'ok' : 'NOT OK'}  ${what}`);
    for (const line of lines) say(line);
    return { ok: checks.every(([, fine]) => fine), lines };
  },
};
