/** Every recipe of the folder `recipes`, frozen on published logs that the folder of TROUPE_DATA holds. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseMethods } from '../../../api/operations/judge/methods.ts';
import { openProject, type Project } from '../../../cli/open-project.ts';
import { type FreezeResult, freeze } from '../../../store/datasets/freeze.ts';
import { openDataset } from '../../../store/datasets/read.ts';
import { readyRecipe, readyRecipes } from '../../../store/datasets/ready.ts';
import { readRecipe } from '../../../store/datasets/recipe.ts';
import { freshDatabase, type TestDatabase } from '../../support/database.ts';

const ready = readyRecipes();
/** Those without rows in published logs: pairs.test.ts freezes malt, ready-made.test.ts the others. */
const MADE = [
  ...['malt', 'm500', 'm1-32b', 'browsemaster', 'cure-coder', 'cure-tester', 'masprm', 'star-agents', 'apigen-mt'],
];
const READY = ready.filter(({ name }) => !MADE.includes(name));
const data = process.env.TROUPE_DATA ?? '';
type Run = {
  readonly reward: number;
  readonly traj: readonly { readonly role: string; readonly tool_calls?: unknown }[];
};

describe('The recipes that come with Troupe', () => {
  it('are named as their files are, begin with what they are, and can be read', () => {
    expect(ready.length).toBeGreaterThan(5);
    for (const { name, about, text } of ready) {
      expect(readRecipe(text).name).toBe(name);
      expect(about).toMatch(/^\p{L}.+\.$/u);
    }
  });

  it('name every method they need in the line that says what to judge first', () => {
    for (const { judge, text } of ready) {
      const { credit, reward, verdicts } = readRecipe(text);
      const called = [...text.replace(/^#.*$/gmu, '').matchAll(/(?:verdict|credit|reward|score)\((\w+)\)/g)].map(
        ([, name]) => name,
      );
      const needed = [...called, credit?.method, reward?.method, ...verdicts.map(({ method }) => method)];
      const judged = judge === null ? [] : parseMethods(judge).map(({ method }) => method);
      expect(new Set(judged)).toEqual(new Set(needed.filter((name) => name !== undefined && name !== null)));
    }
  });

  it('are found by name, and a mistyped name shows the nearest', () => {
    expect(readyRecipe('dr-mas').judge).toBe('drmas_advantage');
    expect(() => readyRecipe('dr-mass')).toThrow(/Did you mean dr-mas\?/);
  });
});

describe.skipIf(!data)('published logs (TROUPE_DATA names their folder)', () => {
  let database: TestDatabase;
  let folder: string;
  let project: Project;
  const frozen = new Map<string, FreezeResult>();
  beforeAll(async () => {
    database = await freshDatabase();
    folder = mkdtempSync(join(tmpdir(), 'troupe-recipes-'));
    project = await openProject({ home: join(folder, 'home'), databaseUrl: database.url });
    await project.import({ paths: ['tau-bench', 'who-and-when'].map((name) => join(data, 'data', name)) });
    await project.judge({ methods: READY.flatMap(({ judge }) => (judge === null ? [] : parseMethods(judge))) });
    const options = { directory: join(folder, 'datasets'), codeVersion: 'test' };
    for (const { name, text } of READY) frozen.set(name, await freeze(database.db, readRecipe(text), options));
  }, 300_000);
  afterAll(async () => {
    await project?.close();
    await database.close();
    rmSync(folder, { recursive: true });
  });

  const rowsOf = async (name: string) => {
    const opened = await openDataset(frozen.get(name)!.directory);
    return Object.keys(opened.manifest.rows).flatMap((split) =>
      [...opened.rows(split)].map((row) => ({ ...row, split })),
    );
  };
  const runs = data
    ? (JSON.parse(readFileSync(join(data, 'data/tau-bench/gpt-4o-airline.json'), 'utf8')) as readonly Run[])
    : [];
  const answers = (run: Run) => run.traj.filter(({ role }) => role === 'assistant');

  it.each(READY.map(({ name }) => name))(
    '%s has no task in two parts, and warns of parts without a task only',
    async (name) => {
      const { manifest, ...said } = frozen.get(name)!;
      // The demonstrations mix models and failed episodes, of which a freeze speaks too.
      const warnings = said.warnings.filter(
        (warning) => !/ from \d+ models?:| from episodes that failed/.test(warning),
      );
      const empty = warnings.map((warning) => /^(\S+) has no row: no task falls into its share/.exec(warning)?.[1]);
      expect(empty.map((part) => manifest.rows[part!] ?? 0)).toEqual(warnings.map(() => 0));
      expect(empty).not.toContain(undefined);
      const rows = await rowsOf(name);
      expect(rows.length).toBeGreaterThan(20);
      const parts = new Map<unknown, Set<string>>();
      for (const { task_id, episode_id, split } of rows as readonly Record<string, unknown>[]) {
        const task = task_id ?? episode_id;
        parts.set(task, (parts.get(task) ?? new Set()).add(String(split)));
      }
      expect([...parts.values()].filter((of) => of.size > 1)).toEqual([]);
    },
  );

  it('sirius takes every answer of the runs with a reward, counted in the file', async () => {
    const wanted = runs.filter(({ reward }) => reward > 0).flatMap(answers);
    expect((await rowsOf('sirius')).length).toBe(wanted.length);
  });

  it('xlam takes the answers of solved runs that call tools, counted in the file', async () => {
    const calling = runs
      .filter(({ reward }) => reward >= 1)
      .flatMap(answers)
      .filter(({ tool_calls }) => Array.isArray(tool_calls));
    expect((await rowsOf('xlam')).length).toBe(calling.length);
  });

  it('before-mistake ends before the entry that a person labelled', async () => {
    const { rows } = await project.sql({
      sql: `select episode_id, min(entry) from traj.feedback where kind = 'failure' group by 1`,
    });
    const entries = new Map(rows.map(([id, entry]) => [id, Number(entry)]));
    const kept = (await rowsOf('before-mistake')) as unknown as readonly {
      episode_id: string;
      call_id: string;
    }[];
    const place = (call: string) => Number(/^m(\d+)$/.exec(call)![1]);
    expect(kept.filter(({ episode_id, call_id }) => !(place(call_id) < entries.get(episode_id)!))).toEqual([]);
    const { rows: all } = await project.sql({ sql: `select episode_id, call_id from traj.steps` });
    const before = all.filter(
      ([id, call]) => entries.has(id as string) && place(String(call)) < entries.get(id as string)!,
    );
    expect(kept.length).toBe(before.length);
  });

  it('the funnel of dr-mas is what docs/recipes.md shows, but for the failure logs beside', async () => {
    const page = readFileSync(join(import.meta.dirname, '../../../docs/recipes.md'), 'utf8').replace(/ +/g, ' ');
    const { funnel } = frozen.get('dr-mas')!.manifest;
    expect(
      funnel[0]!.before! -
        readdirSync(join(data, 'data/who-and-when'), { recursive: true }).filter((name) =>
          /\d\.json$/.test(String(name)),
        ).length,
    ).toBe(runs.length);
    for (const { name, of, before, after } of funnel) {
      const shown = `${name} ${of} ${of === 'episodes' ? runs.length : before} ${after}\n`;
      expect(page).toContain(shown);
    }
  });

  it('the groups of dr-mas have members with different rewards', async () => {
    const rows = (await rowsOf('dr-mas')) as unknown as readonly {
      group_id: string;
      reward: number;
      advantage: number;
    }[];
    const rewards = new Map<string, Set<number>>();
    for (const { group_id, reward } of rows) rewards.set(group_id, (rewards.get(group_id) ?? new Set()).add(reward));
    expect([...rewards.values()].map(({ size }) => size > 1)).toEqual([...rewards.values()].map(() => true));
    expect(rows.every(({ advantage }) => Number.isFinite(advantage))).toBe(true);
  });
});

it('docs/recipes.md shows the recipe that it explains, and lists every one with what to judge first', () => {
  const page = readFileSync(join(import.meta.dirname, '../../../docs/recipes.md'), 'utf8');
  expect(page).toContain(`\`\`\`yaml\n${readyRecipe('dr-mas').text}\`\`\``);
  const rows = page.replace(/ +/g, ' ');
  for (const { name, judge } of ready)
    expect(rows).toMatch(new RegExp(`\\| \`${name}\` \\| [^|]+\\| ${judge === null ? '' : `\`${judge}\` `}\\|`));
});
