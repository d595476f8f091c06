/** Freezes every ready recipe and exports each dataset in some layouts, as a process whose time zone and locale its starter chose. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { exportDataset } from '../../../store/datasets/export.ts';
import { type Frozen, freeze } from '../../../store/datasets/freeze.ts';
import { LAYOUTS } from '../../../store/datasets/layouts/catalogue.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { readyRecipes } from '../../../store/datasets/ready.ts';
import { readRecipe } from '../../../store/datasets/recipe.ts';
import { type Db, openPool } from '../../../store/db/pool.ts';

/** Those without rows in published logs: pairs.test.ts freezes malt, ready-made.test.ts the others. */
const MADE = [
  ...['malt', 'm500', 'm1-32b', 'browsemaster', 'cure-coder', 'cure-tester', 'masprm', 'star-agents', 'apigen-mt'],
];
/** Those with rows in published logs. */
export const READY = readyRecipes().filter(({ name }) => !MADE.includes(name));
const EACH = 4;

/** The layouts of a recipe: a few of those that take its rows, others for the next recipe, so that all are taken by some. */
export function layoutsOf(name: string) {
  const place = READY.findIndex((one) => one.name === name);
  const { unit } = readRecipe(READY[place]!.text);
  const fitting = LAYOUTS.filter(({ refuses }) => refuses?.[unit] === undefined);
  return Array.from({ length: EACH }, (_, i) => fitting[(place * EACH + i) % fitting.length]!);
}

/** Datasets under `folder`, layouts under `folder/RECIPE`; a layout without a row of a dataset is not there. */
export async function freezeReady(db: Db, folder: string): Promise<ReadonlyMap<string, Frozen>> {
  const all = new Map<string, Frozen>();
  for (const { name, text } of READY) {
    const frozen = await freeze(db, readRecipe(text), { directory: join(folder, 'datasets'), codeVersion: 'test' });
    all.set(name, frozen);
    mkdirSync(join(folder, name), { recursive: true });
    const dataset = await openDataset(frozen.directory);
    for (const layout of layoutsOf(name)) {
      await exportDataset(dataset, layout, join(folder, name, layout.name)).catch((error) => {
        if (!/has no row of dataset/.test(String(error))) throw error;
      });
    }
  }
  return all;
}

const [url, folder] = process.argv.slice(2);
if (process.argv[1]?.endsWith('freeze-ready.ts')) {
  const db = openPool(url!, { max: 2 });
  await freezeReady(db, folder!);
  await db.close();
  process.stdout.write(
    JSON.stringify({ zone: Intl.DateTimeFormat().resolvedOptions().timeZone, half: (0.5).toLocaleString() }),
  );
}
