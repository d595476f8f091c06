/** Datasets: frozen recipes. */
import { Type } from 'typebox';
import { EXIT } from '../../errors.ts';
import type { DatasetDiff } from '../../store/datasets/diff.ts';
import { LAYOUTS } from '../../store/datasets/layouts/catalogue.ts';
import type { Count } from '../../store/datasets/layouts/counter.ts';
import type { Manifest } from '../../store/datasets/manifest.ts';
import { readyRecipes } from '../../store/datasets/ready.ts';
import { parseRecipe } from '../../store/datasets/recipe.ts';
import { checkpoint, nullable } from './fields.ts';
import { filterInput } from './filtered-list.ts';
import { listInput, listOf } from './lists.ts';
import { defaulted, local, operation, withKeywords, written } from './operation.ts';

const does = () => import('./dataset/run.ts');
const prints = () => import('./dataset/text.ts');

const named = (description: string) =>
  local(Type.String({ minLength: 1, maxLength: 4096, description }), 'or name', { position: true });
const dataset = named('its id, the beginning of its id, its name, or its folder');
const Rows = Type.Record(Type.String(), Type.Integer(), { description: 'rows of each split' });
/** What a manifest says, and its funnel, files and recipe besides. */
const manifest = {
  dataset_id: Type.String(),
  name: Type.String(),
  content_sha256: Type.String(),
  rows: Rows,
};
const Keys = Type.Array(
  Type.Object({ episode_id: Type.String(), step_id: nullable(Type.String()), split: Type.String() }),
);
const Diff = Type.Unsafe<DatasetDiff>(
  Type.Object({
    ...{ added: Keys, removed: Keys, changed: Keys, moved: Keys },
    same: Type.Integer({ description: 'rows in both, with the same content' }),
    reordered: Type.Boolean({ description: 'the rows in both stand in another order' }),
    recipe: Type.Array(Type.String(), { description: 'fields in which the recipes differ' }),
  }),
);

export const list = operation({
  name: 'dataset.list',
  about: 'list datasets, newest first, and what else lies in the folder of datasets',
  examples: [{ limit: 5 }, { name: 'good-solvers' }, { filter: 'frozen_at > 2026-01-01T00:00:00Z' }],
  input: { ...listInput(['-frozen_at', 'name', 'dataset_id']), ...filterInput('name') },
  output: Type.Object({
    ...listOf(
      Type.Object({
        dataset_id: Type.String(),
        name: nullable(Type.String()),
        sha256: nullable(Type.String({ description: 'of its manifest' })),
        rows: nullable(Rows),
        uri: nullable(Type.String({ description: 'where it was frozen' })),
        frozen_at: nullable(Type.String()),
        problem: nullable(Type.String({ description: 'why it cannot be opened in this home' })),
      }),
    ).properties,
    others: Type.Array(
      Type.Object({
        directory: Type.String(),
        name: nullable(Type.String()),
        rows: nullable(Rows),
        problem: nullable(Type.String()),
      }),
      {
        description:
          'folders of this home that the project does not know: unfinished, damaged, or brought from elsewhere',
      },
    ),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).list,
  text: async () => (await prints()).listed,
});

export const show = operation({
  name: 'dataset.show',
  about: 'show the data card of a dataset; its manifest with --json',
  examples: [{ dataset: 'good-solvers' }],
  input: { dataset },
  output: Type.Unsafe<Manifest & { readonly directory: string | null; readonly card: string | null }>(
    Type.Object({
      ...manifest,
      directory: nullable(Type.String({ description: 'null where its files are not in this home' })),
      card: nullable(Type.String({ description: 'its README.md' })),
    }),
  ),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).show,
  text: async () => (await prints()).shown,
});

export const freeze = operation({
  name: 'dataset.freeze',
  about: 'freeze the rows that a recipe selects into an immutable folder with a manifest',
  notes: `Recipes for a start:

  name: good-solvers
  where: reward >= 1 and count(tool_calls where error) = 0
  unit: step
  roles: [solver]
  layout: [arrow, jsonl]

Fewer rows, easy tasks first:

  name: few-and-easy-first
  pass_rate: { of: count(steps where checkpoint_id = ck-7) > 0, least: 0.2, most: 0.9 }
  order: easy_first
  decontaminate: { files: [gsm8k-test.jsonl] }
  near_duplicates: { threshold: 0.8 }
  caps: [{ of: task, rows: 4 }]

Rows that count more or less in the loss:

  name: weighed
  weight: [{ where: role = critic, weight: 0.5 }, { where: task.difficulty = hard, weight: 2 }]

A fifth of the rows from an earlier dataset:

  name: new-and-old
  replay: [{ dataset: good-solvers, share: 0.2 }]`,
  examples: [{ recipe: { name: 'good-solvers', where: 'reward >= 1', unit: 'step', roles: ['solver'] } }],
  input: {
    recipe: written(
      withKeywords(
        Type.Object(
          {},
          { additionalProperties: true, description: 'the recipe; `troupe recipe schema` prints its schema' },
        ),
        { reads: (value: unknown) => void parseRecipe(value) },
      ),
      {
        position: true,
        file: 'document',
        hint: (file) =>
          readyRecipes().some(({ name }) => name === file)
            ? `${file} comes with Troupe: troupe dataset recipes ${file} | troupe dataset freeze -`
            : undefined,
      },
    ),
    allow_empty: defaulted(Type.Boolean({ description: 'freeze it also where the recipe finds no row' }), false),
  },
  output: Type.Unsafe<
    Manifest & { readonly directory: string; readonly fresh: boolean; readonly warnings: readonly string[] }
  >(
    Type.Object({
      ...manifest,
      directory: Type.String(),
      fresh: Type.Boolean({ description: 'false where this recipe with these rows was frozen before' }),
      warnings: Type.Array(Type.String(), { description: 'a sentence on each thing to look at' }),
    }),
  ),
  scope: 'train',
  changes: true,
  long: 'Freezing',
  run: async () => (await does()).freeze,
  text: async () => (await prints()).frozen,
});

export const recipes = operation({
  name: 'dataset.recipes',
  about: 'list the recipes that come with Troupe; with a name, print that one to change and freeze',
  examples: [{}, { name: 'dr-mas' }],
  input: {
    name: Type.Optional(written(Type.String({ maxLength: 512, description: 'one of them' }), { position: true })),
  },
  output: Type.Object({
    recipes: Type.Array(
      Type.Object({
        name: Type.String(),
        about: Type.String(),
        judge: nullable(Type.String({ description: 'methods that have to judge first' })),
        text: Type.String({ description: 'the recipe, as YAML' }),
      }),
    ),
  }),
  scope: 'read',
  changes: false,
  run: async () => (await does()).recipes,
  text: async () => (await prints()).recipesText,
});

export const diff = operation({
  name: 'dataset.diff',
  about: 'show the rows that two datasets do not share; every row with --json',
  examples: [{ first: 'good-solvers', second: 'ab12cd34' }],
  input: { first: named('the one dataset'), second: named('the other') },
  output: Diff,
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).diff,
  text: async () => (await prints()).diffText,
});

export const outdated = operation({
  name: 'dataset.outdated',
  about: 'show what a dataset would hold if its recipe were frozen now; nothing is kept',
  notes:
    'The command ends with 1 where the rows differ: after late feedback, new episodes, judging again, pruning or erasure.',
  examples: [{ dataset: 'good-solvers' }],
  input: { dataset },
  output: Type.Object({
    name: Type.String(),
    outdated: Type.Boolean(),
    rows: Diff,
    methods: Type.Array(Type.Object({ before: Type.String(), now: Type.String() }), {
      description: 'methods of which another version or another parameter set would be read',
    }),
  }),
  scope: 'train',
  changes: true,
  long: 'Freezing',
  run: async () => (await does()).outdated,
  text: async () => (await prints()).freshness,
  exit: (found) => (found.outdated ? EXIT.failed : EXIT.done),
});

const Counts = Type.Array(Type.Object({ what: Type.String(), count: Type.Integer() }));
const exported = operation({
  name: 'dataset.export',
  about: 'write a frozen dataset in the file layout of another trainer',
  notes: `Layouts:\n${LAYOUTS.map(({ name, about: what }) => `  ${name.padEnd(17)} ${what}`).join('\n')}

manifest.json among the files names the rows that were left out and what the layout cannot hold, with counts.`,
  examples: [
    { dataset: 'good-solvers', layout: 'trl-sft', out: 'sft' },
    { dataset: 'good-solvers', layout: 'openai-dpo', out: 'pairs' },
  ],
  input: {
    dataset,
    layout: written(
      Type.Enum(LAYOUTS.map(({ name }) => name) as [string, ...string[]], { description: 'file layout' }),
      { value: 'name' },
    ),
    out: Type.Optional(
      local(Type.String({ description: 'folder to write; it must not be there, or be empty' }), 'results', {
        value: 'dir',
      }),
    ),
  },
  output: Type.Object({
    dataset_id: Type.String(),
    name: Type.String(),
    layout: Type.String(),
    rows: Type.Record(Type.String(), Type.Integer(), { description: 'rows of each file that has rows' }),
    made_of: Type.Integer({ description: 'rows of the dataset' }),
    left_out: Type.Unsafe<readonly Count[]>({
      ...Counts,
      description: 'rows that are not in the files, by the reason',
    }),
    not_held: Type.Unsafe<readonly Count[]>({ ...Counts, description: 'what the rows hold and the files do not' }),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).exported,
  text: async () => (await prints()).exported,
});

export { exported as export };

const Part = Type.Object({ learnt: Type.Boolean(), tokens: Type.Integer(), text: Type.String() });
export const mask = operation({
  name: 'dataset.mask',
  about: 'show rows of a dataset with what a model learns of them in colour',
  notes: `What is learnt is green, or between ⟦ and ⟧ where there are no colours; the rest of a row is cut to its beginning and end. Rows with token ids are shown as they were sampled, others as the chat template of the model writes them. Of a pair both answers are shown. With --json every part is whole. The command ends with 1 where nothing could be learnt of a row.`,
  examples: [
    { dataset: 'good-solvers', model: './model' },
    { dataset: 'good-solvers', model: 'ab12cd34ef56ab78', split: 'held_out', rows: 10 },
  ],
  input: {
    dataset,
    model: checkpoint('model or checkpoint whose chat template writes the rows', {}),
    split: defaulted(
      written(Type.String({ maxLength: 100, description: 'part of the dataset' }), { value: 'name' }),
      'train',
    ),
    rows: defaulted(Type.Integer({ minimum: 1, maximum: 1000, description: 'number of rows, from the first' }), 3),
  },
  output: Type.Object({
    dataset_id: Type.String(),
    model: Type.String(),
    split: Type.String(),
    answer_form: nullable(Type.String({ description: 'how answers without token ids are written' })),
    rows: Type.Array(
      Type.Object({
        row: Type.Integer(),
        episode_id: Type.Unknown(),
        step_id: Type.Unknown(),
        parts: Type.Record(Type.String(), Type.Array(Part), { description: 'of an answer, or of the two of a pair' }),
        refused: nullable(Type.String({ description: 'why nothing could be learnt of it' })),
      }),
    ),
  }),
  scope: 'read',
  changes: false,
  large: true,
  run: async () => (await does()).mask,
  text: async () => (await prints()).maskText,
  exit: ({ rows }) => (rows.some(({ refused }) => refused !== null) ? EXIT.failed : EXIT.done),
});
