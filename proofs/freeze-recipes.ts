/**
 * Freezes every ready recipe of a home and writes each dataset in layouts, as a process whose time zone and locale its starter chose:
 * home, folder, files to import as JSON, layouts for each recipe, and how many events a portion of the rebuild has (0: none). Prints JSON.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseMethods } from '../api/operations/judge/methods.ts';
import { openProject } from '../cli/open-project.ts';
import { exportDataset } from '../store/datasets/export.ts';
import { freeze } from '../store/datasets/freeze.ts';
import { LAYOUTS } from '../store/datasets/layouts/catalogue.ts';
import { openDataset } from '../store/datasets/read.ts';
import { readyRecipes } from '../store/datasets/ready.ts';
import { readRecipe } from '../store/datasets/recipe.ts';
import { openDatabase } from '../store/db/database.ts';
import { judgeAgain } from '../store/evaluate/judging/judge.ts';
import { rebuild } from '../store/projecting/rebuilding/rebuild.ts';

export type FrozenRecipe = {
  readonly directory: string;
  readonly rows: number;
  readonly warnings: readonly string[];
  /** Layouts that have rows of it. */
  readonly layouts: readonly string[];
};
export type Answer = {
  readonly zone: string;
  readonly half: string;
  readonly recipes: Readonly<Record<string, FrozenRecipe>>;
};

const [home, folder, files, each, portion] = process.argv.slice(2) as [string, string, string, string, string];
const recipes = readyRecipes();

const project = await openProject({ home });
try {
  for (const file of JSON.parse(files) as string[]) await project.import({ paths: [file] });
  const methods = recipes.flatMap(({ judge }) => (judge === null ? [] : parseMethods(judge)));
  await project.judge({ methods: [...new Map(methods.map((one) => [JSON.stringify(one), one])).values()] });
} finally {
  await project.close();
}

const { db, close } = await openDatabase({ home, project: 'troupe', applicationName: 'troupe proof' });
try {
  if (Number(portion) > 0) await rebuild(db, { judge: judgeAgain, portion: Number(portion) });
  const frozen: Record<string, FrozenRecipe> = {};
  for (const [place, { name, text }] of recipes.entries()) {
    const recipe = readRecipe(text);
    const options = { directory: join(folder, 'datasets'), codeVersion: 'proof', allowEmpty: true };
    const { directory, manifest, warnings } = await freeze(db, recipe, options);
    const fitting = LAYOUTS.filter(({ refuses }) => refuses?.[recipe.unit] === undefined);
    // A few of them, others for the next recipe, so that all are taken by some.
    const some = Array.from(
      { length: Math.min(Number(each), fitting.length) },
      (_, i) => fitting[(place * Number(each) + i) % fitting.length]!,
    );
    const layouts: string[] = [];
    mkdirSync(join(folder, name), { recursive: true });
    const dataset = await openDataset(directory);
    for (const layout of some) {
      try {
        await exportDataset(dataset, layout, join(folder, name, layout.name));
        layouts.push(layout.name);
      } catch (error) {
        if (!/has no row of dataset/.test(String(error))) throw error;
      }
    }
    frozen[name] = {
      directory,
      rows: Object.values(manifest.rows).reduce((sum, rows) => sum + rows, 0),
      warnings,
      layouts,
    };
  }
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  process.stdout.write(JSON.stringify({ zone, half: (0.5).toLocaleString(), recipes: frozen } satisfies Answer));
} finally {
  await close();
}
