/**
 * A recipe selects the rows of a dataset: a filter, the verdicts required, the unit, whose steps, which reward and credit, the
 * order, the split and the layouts. It is plain data; its canonical form is part of the dataset's identity.
 */

import { type Static, Type } from 'typebox';
import { meantBy, read } from '../../document.ts';
import { got, TroupeError } from '../../errors.ts';
import { canonicalJson, isRecord } from '../../ingest/events/json.ts';
import { parseYaml } from '../../ingest/files/parse-yaml.ts';
import { comparisonsOf, type Filter, filterSchema, parseFilter } from '../filter/select.ts';
import { COLUMNS, type Unit } from './columns.ts';
import { LAYOUTS } from './layouts/catalogue.ts';
import { type Replay, replayField, replayOf } from './replay.ts';
import { type Thinning, thinningFields, thinningOf } from './thinning.ts';
import { goesByRates, WEIGHT_COLUMN, type Weight, weightField, weightFilters, weightOf } from './weights.ts';

const nullable = <T extends Parameters<typeof Type.Optional>[0]>(schema: T) =>
  Type.Optional(Type.Union([schema, Type.Null()]));

const shareOf = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }));

const methodFields = {
  method: nullable(Type.String({ minLength: 1, description: 'name of the method; its latest version is taken' })),
  version: nullable(Type.Integer({ description: 'this version instead of the latest' })),
  params: nullable(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'parameters it must have been run with; others may be any',
    }),
  ),
  method_key: nullable(Type.String({ minLength: 1, description: 'exactly this method, version and parameters' })),
};
const MethodRef = Type.Object(methodFields, { additionalProperties: false });
const MethodChoice = Type.Union([Type.String({ minLength: 1 }), MethodRef]);
const LAYOUT = ['arrow', 'parquet', 'jsonl'] as const;
const ORDER = ['recorded', 'm1', 'easy_first', 'hard_first'] as const;
const LayoutName = Type.Enum([...LAYOUT]);

const Line = (description: string) => Type.String({ pattern: '^[^\\u0000-\\u001f]{1,200}$', description });

/** JSON Schema (TypeBox) of a recipe as people write it. */
export const recipeSchema = Type.Object(
  {
    name: Type.String({
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
      description: 'letters, digits, dot, dash, underscore',
    }),
    origin: nullable(Line('where the recorded text comes from, for the data card')),
    license: nullable(Line('licence of the recorded text, such as apache-2.0, for the data card')),
    where: nullable(
      Type.Union([
        Type.String({ description: 'such as: role = coder and reward >= 0.5; docs/recipes.md has the grammar' }),
        filterSchema,
      ]),
    ),
    verdicts: Type.Optional(
      Type.Array(
        Type.Object(
          {
            ...methodFields,
            keep: Type.Optional(Type.Boolean({ description: 'what the verdict must be; true if left out' })),
          },
          { additionalProperties: false },
        ),
      ),
    ),
    unit: Type.Optional(Type.Enum(['step', 'episode', 'group', 'pair', 'triplet', 'branch'])),
    pairs: nullable(
      Type.Object(
        {
          from: Type.Optional(
            Type.Enum(['group', 'tree', 'corrections'], {
              description:
                'group: answers to the same messages in one group · tree: to the same messages under one parent step · corrections: a right step and the wrong one it corrected',
            }),
          ),
          margin: Type.Optional(
            Type.Number({
              minimum: 0,
              description: 'least difference in advantage, or in reward where that is unknown',
            }),
          ),
          threshold: nullable(
            Type.Number({
              description: 'every answer worth more with every one that is not; the best with the worst if left out',
            }),
          ),
        },
        { additionalProperties: false, description: 'which answers are a pair; for unit pair alone' },
      ),
    ),
    roles: nullable(
      Type.Array(Type.String({ minLength: 1 }), { maxItems: 1000, description: 'only steps of these roles' }),
    ),
    reward: nullable(MethodChoice),
    credit: nullable(MethodChoice),
    order: Type.Optional(
      Type.Enum([...ORDER], {
        description:
          'recorded: episodes by start · m1: all steps of a problem together, in generation order · easy_first, hard_first: by the pass rate of the task, which pass_rate names',
      }),
    ),
    ...thinningFields,
    cut_answers: nullable(
      Type.Boolean({
        description:
          'true: also answers that were cut off (at a limit, by a filter, by an error), which rows mark as cut; false if left out, and true beside a credit, which tells good samples from bad ones',
      }),
    ),
    weight: weightField,
    replay: replayField,
    split: nullable(
      Type.Object(
        {
          held_out: shareOf('share of the tasks that train leaves out'),
          validation: shareOf('share of the tasks for choosing between checkpoints; with test, instead of held_out'),
          test: shareOf('share of the tasks for the last comparison; with validation, instead of held_out'),
          seed: Type.Optional(Type.Union([Type.Integer(), Type.String()])),
        },
        { additionalProperties: false },
      ),
    ),
    columns: nullable(Type.Array(Type.String(), { minItems: 1 })),
    layout: Type.Optional(Type.Union([LayoutName, Type.Array(LayoutName)])),
    limit: nullable(Type.Integer({ minimum: 1, description: 'at most so many rows (groups where the unit is group)' })),
  },
  { additionalProperties: false, description: 'Which rows a dataset has.' },
);
type RecipeInput = Static<typeof recipeSchema>;

type Layout = (typeof LAYOUT)[number];
export type MethodChoice = {
  readonly method: string | null;
  readonly version: number | null;
  readonly params: Readonly<Record<string, unknown>> | null;
  readonly method_key: string | null;
};

/** Shares of the tasks outside train: one part held out, or two with a name each. */
export type TaskSplit =
  | { readonly held_out: number; readonly seed: string }
  | { readonly validation: number; readonly test: number; readonly seed: string };

/** Which answers of a recipe's steps are a pair. A threshold of null takes the best and the worst. */
export type Pairs = {
  readonly from: 'group' | 'tree' | 'corrections';
  readonly margin: number;
  readonly threshold: number | null;
};

/** A recipe in canonical form, in one spelling. `pairs` is there for unit pair alone, thinning, weight and replay where they are asked for, all else always. */
export type Recipe = Thinning & {
  readonly name: string;
  /** What the user knows of the recorded text; absent where it is not given. */
  readonly origin?: string;
  readonly license?: string;
  readonly where: Filter | null;
  /** Whether answers that were cut off are rows, too. */
  readonly cut_answers: boolean;
  readonly verdicts: readonly (MethodChoice & { readonly keep: boolean })[];
  readonly unit: Unit;
  readonly pairs?: Pairs;
  readonly weight?: Weight;
  readonly replay?: readonly Replay[];
  readonly roles: readonly string[] | null;
  readonly reward: MethodChoice | null;
  readonly credit: MethodChoice | null;
  readonly order: (typeof ORDER)[number];
  readonly split: TaskSplit | null;
  readonly columns: readonly string[];
  readonly layout: readonly Layout[];
  readonly limit: number | null;
};

const invalid = (message: string, detail: ConstructorParameters<typeof TroupeError>[2]): never => {
  throw new TroupeError('recipe_invalid', message, detail);
};

/** Reads YAML or JSON text (JSON is YAML), which messages call `called`. @throws TroupeError `recipe_invalid`. */
export function readRecipe(text: string, called = 'The recipe'): Recipe {
  let value: unknown;
  try {
    value = parseYaml(text);
  } catch (error) {
    return invalid(`${called} is neither YAML nor JSON: ${(error as Error).message.split('\n', 1)[0]}`, {
      cause: error,
    });
  }
  return parseRecipe(value);
}

/**
 * Checks a recipe and returns its canonical form; a canonical recipe comes back unchanged.
 * @throws TroupeError `recipe_invalid` with the path of what is wrong, what was expected, and for a misspelt name the nearest one.
 */
export function parseRecipe(value: unknown): Recipe {
  refuseExports(isRecord(value) ? value.layout : undefined);
  const input = read(recipeSchema, value, { called: 'A recipe', code: 'recipe_invalid' });
  const where = input.where === undefined || input.where === null ? null : parseFilter(input.where);
  const unit = input.unit ?? 'step';
  const weighed = weightOf(unit, input);
  const asksAdvantage = (filter: Filter | null) => comparisonsOf(filter).some(({ field }) => field === 'advantage');
  for (const [field, filters] of Object.entries({ where: [where], weight: weightFilters(weighed.weight) })) {
    if (input.credit || !filters.some(asksAdvantage)) continue;
    invalid(`${field} asks for advantage, but the recipe names no credit; name one, or write credit(METHOD).`, {
      field,
      expected: `credit beside ${field}`,
      got: 'no credit',
    });
  }
  const own = weighed.weight === undefined ? [] : [WEIGHT_COLUMN.name];
  const available = [...COLUMNS[unit].map((column) => column.name), ...own];
  for (const column of input.columns ?? []) {
    if (available.includes(column)) continue;
    const hint = meantBy(column, available) || ` It has ${available.join(', ')}.`;
    invalid(`unit ${unit} has no ${got(column)}.${hint}`, {
      field: 'columns',
      expected: `one of ${available.join(', ')}`,
      got: got(column),
    });
  }
  return {
    name: input.name,
    ...(input.origin ? { origin: input.origin } : {}),
    ...(input.license ? { license: input.license } : {}),
    where,
    // An advantage is relative to all samples of a group: without those that ran into a limit the others would count too much.
    cut_answers: input.cut_answers ?? (Boolean(input.credit) && unit !== 'pair'),
    verdicts: (input.verdicts ?? []).map((verdict, i) => ({
      ...choiceOf(verdict, `verdicts[${i}]`),
      keep: verdict.keep ?? true,
    })),
    unit,
    ...pairsOf(unit, input.pairs ?? null),
    ...thinningOf(unit, input),
    ...weighed,
    ...replayOf(unit, input),
    roles: input.roles ? [...new Set(input.roles)].sort() : null,
    reward: input.reward ? choiceOf(input.reward, 'reward') : null,
    credit: input.credit ? choiceOf(input.credit, 'credit') : null,
    order: orderOf(input, goesByRates(weighed.weight)),
    split: input.split ? splitOf(input.split) : null,
    columns: input.columns ? [...new Set([...input.columns, ...own])] : available,
    layout: layoutsOf(input.layout),
    limit: input.limit ?? null,
  };
}

/** The canonical text of a recipe: what its identity is made of. */
export const recipeText = (recipe: Recipe): string => canonicalJson(recipe);

/** Layouts of other trainers are made from what is frozen. */
function refuseExports(layout: unknown): void {
  const found = [layout].flat().find((name) => LAYOUTS.some((one) => one.name === name));
  if (found === undefined) return;
  invalid(
    `layout ${String(found)} is made from a frozen dataset: troupe dataset export NAME --layout ${String(found)}.`,
    {
      field: 'layout',
      expected: `one of ${LAYOUT.join(', ')}`,
      got: got(found),
    },
  );
}

/** Pass rates are counted for an order, a band or weights, and an order by them needs them. */
function orderOf(
  { order = 'recorded', pass_rate: rate }: Omit<RecipeInput, 'where'>,
  weighs: boolean,
): Recipe['order'] {
  const byRate = order === 'easy_first' || order === 'hard_first';
  if (byRate && !rate) {
    invalid(`order ${order} goes by pass rates, but the recipe names no episodes to count them over.`, {
      field: 'order',
      expected: 'pass_rate: { of: FILTER } beside it',
      got: 'no pass_rate',
    });
  }
  if (rate && !byRate && !weighs && (rate.least ?? 0) === 0 && (rate.most ?? 1) === 1) {
    invalid('pass_rate takes no row, and orders and weighs none.', {
      field: 'pass_rate',
      expected: 'least or most, order: easy_first or hard_first, or a weight with pass_rate',
      got: 'neither',
    });
  }
  return order;
}

function pairsOf(unit: Unit, pairs: NonNullable<RecipeInput['pairs']> | null): { readonly pairs?: Pairs } {
  if (unit !== 'pair') {
    if (pairs === null) return {};
    return invalid(`pairs is for unit pair, and the unit is ${unit}.`, {
      field: 'pairs',
      expected: 'unit: pair',
      got: unit,
    });
  }
  const { from = 'group', margin = 0, threshold = null } = pairs ?? {};
  if (from === 'corrections' && (margin > 0 || threshold !== null)) {
    invalid('pairs from corrections are right and wrong: they take no margin and no threshold.', {
      field: 'pairs',
      expected: 'from alone',
    });
  }
  return { pairs: { from, margin, threshold } };
}

function splitOf({ held_out, validation, test, seed = 0 }: NonNullable<RecipeInput['split']>): TaskSplit {
  const named = { expected: 'held_out, or validation and test', field: 'split' };
  if (held_out !== undefined) {
    if (validation === undefined && test === undefined) return { held_out, seed: String(seed) };
    return invalid('split names held_out beside validation or test; name one part, or two.', named);
  }
  if (validation === undefined && test === undefined) return invalid('split names no share of the tasks.', named);
  const sum = (validation ?? 0) + (test ?? 0);
  if (sum <= 1) return { validation: validation ?? 0, test: test ?? 0, seed: String(seed) };
  return invalid(`validation and test are ${sum} of the tasks together; they are 1 at most.`, named);
}

/** The Arrow file is the dataset itself; the other layouts are made from it, so it is always there. */
function layoutsOf(layout: RecipeInput['layout']): readonly Layout[] {
  const asked = new Set<Layout>(['arrow', ...((Array.isArray(layout) ? layout : layout ? [layout] : []) as Layout[])]);
  return LAYOUT.filter((name) => asked.has(name));
}

function choiceOf(choice: string | Static<typeof MethodRef>, at: string): MethodChoice {
  const ref: Static<typeof MethodRef> = typeof choice === 'string' ? { method: choice } : choice;
  const { method = null, version = null, params = null, method_key = null } = ref;
  if (method === null && method_key === null) {
    invalid(`${at} should name a method or a method_key, but it names neither.`, {
      field: at,
      expected: 'method or method_key',
    });
  }
  return { method, version, params, method_key };
}
