/**
 * How much each row counts in the loss of a trainer: the credit that the recipe names, or the number of the first rule that fits. A
 * row that no rule fits has weight 1. The loss of a row is multiplied by it.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import { literalSql, type RawBuilder, type SqlBool, sql } from '../db/query.ts';
import { filterText } from '../filter/filter-text.ts';
import { type Filter, filterSchema, looksAt, lowerFilter, parseFilter } from '../filter/select.ts';
import { type DatasetColumn, hasSteps, type Unit } from './columns.ts';
import type { Buffers } from './growing-column.ts';

const Share = Type.Number({ minimum: 0, maximum: 1 });
const Band = Type.Object({ least: Type.Optional(Share), most: Type.Optional(Share) }, { additionalProperties: false });
const RuleInput = Type.Object(
  {
    where: Type.Optional(
      Type.Union([Type.String(), filterSchema, Type.Null()], { description: 'which rows, as where of the recipe' }),
    ),
    pass_rate: Type.Optional(
      Type.Union([Band, Type.Null()], {
        description: 'rows whose task has a pass rate between the two, over the episodes that pass_rate.of finds',
      }),
    ),
    weight: Type.Number({ exclusiveMinimum: 0, description: 'what the loss of these rows is multiplied by' }),
  },
  { additionalProperties: false },
);

/** The field of a recipe as people write it. */
export const weightField = Type.Optional(
  Type.Union([Type.Literal('advantage'), Type.Array(RuleInput, { minItems: 1, maxItems: 100 }), Type.Null()], {
    description:
      'a column weight, which multiplies the loss of a row: advantage is the credit that the recipe names; of a list the first rule that fits counts, and rows that none fits have 1',
  }),
);

/** `where` and `pass_rate` must both fit; one of them is there. */
export type WeightRule = {
  readonly where: Filter | null;
  readonly pass_rate: { readonly least: number; readonly most: number } | null;
  readonly weight: number;
};
export type Weight = 'advantage' | readonly WeightRule[];

/** The column of a recipe with weights, the last one. */
export const WEIGHT_COLUMN: DatasetColumn = { name: 'weight', kind: 'float8', sql: 'weight' };

/** The canonical field. @throws TroupeError `recipe_invalid`. */
export function weightOf(
  unit: Unit,
  { weight, credit, pass_rate: rate }: { weight?: Static<typeof weightField>; credit?: unknown; pass_rate?: unknown },
): { readonly weight?: Weight } {
  if (weight === undefined || weight === null) return {};
  if (weight === 'advantage') {
    if (credit) return { weight };
    throw new TroupeError('recipe_invalid', 'weight is advantage, but the recipe names no credit.', {
      field: 'weight',
      expected: 'credit beside weight',
      got: 'no credit',
    });
  }
  return {
    weight: weight.map((rule, i) => {
      const at = `weight[${i}]`;
      const where = rule.where ? parseFilter(rule.where, `${at}.where`) : null;
      if (where === null && !rule.pass_rate) {
        throw new TroupeError('recipe_invalid', `${at} fits every row, so no rule after it counts.`, {
          field: at,
          expected: 'where or pass_rate',
          got: 'neither',
        });
      }
      if (rule.pass_rate && !rate) {
        throw new TroupeError('recipe_invalid', `${at} goes by pass rates, but the recipe counts none.`, {
          field: at,
          expected: 'pass_rate: { of: FILTER } in the recipe',
          got: 'no pass_rate',
        });
      }
      if (where !== null && hasSteps(unit) && looksAt(where, 'step')) {
        throw new TroupeError(
          'recipe_invalid',
          `${at}.where looks at single steps, but a row of unit ${unit} has several: "${filterText(where)}".`,
          { field: `${at}.where`, expected: 'fields of episodes, tasks and groups', got: filterText(where) },
        );
      }
      const { least = 0, most = 1 } = rule.pass_rate ?? {};
      return { where, pass_rate: rule.pass_rate ? { least, most } : null, weight: rule.weight };
    }),
  };
}

/** The filters of the rules. */
export const weightFilters = (weight: Weight | undefined): readonly Filter[] =>
  Array.isArray(weight) ? weight.flatMap(({ where }: WeightRule) => (where === null ? [] : [where])) : [];

export const goesByRates = (weight: Weight | undefined): boolean =>
  Array.isArray(weight) && weight.some(({ pass_rate: rate }: WeightRule) => rate !== null);

/** @param rate SQL of the pass rate of a row's task */
export function weightSql(rules: readonly WeightRule[], rate: string): string {
  const cases = rules.map((rule) => {
    const { where, pass_rate: band, weight } = rule;
    const fits: RawBuilder<SqlBool>[] = [
      ...(where === null ? [] : [sql<SqlBool>`(${lowerFilter(where)})`]),
      ...(band === null
        ? []
        : [sql<SqlBool>`${sql.raw(rate)} between ${sql.lit(band.least)} and ${sql.lit(band.most)}`]),
    ];
    return sql`when ${sql.join(fits, sql` and `)} then ${sql.lit(weight)}::float8`;
  });
  return literalSql(sql`case ${sql.join(cases, sql` `)} else 1::float8 end`);
}

export const weightText = (weight: Weight): string =>
  weight === 'advantage' ? 'the advantage' : [...weight.map(ruleText), '1 otherwise'].join(', ');

const ruleText = ({ where, pass_rate: band, weight }: WeightRule): string =>
  `${weight} where ${[
    ...(where === null ? [] : [filterText(where)]),
    ...(band === null ? [] : [`the pass rate of the task is from ${band.least} to ${band.most}`]),
  ].join(' and ')}`;

/** What a counter has seen; `least` and `most` are null before the first row. */
export type WeightSums = {
  readonly rows: number;
  readonly least: number | null;
  readonly most: number | null;
  readonly total: number;
  readonly unknown: number;
  readonly small: number;
};

/** Adds up the weights of batches; what is no weight is counted. */
export function weightCounter(before?: WeightSums) {
  const sum = {
    rows: before?.rows ?? 0,
    least: before?.least ?? Number.POSITIVE_INFINITY,
    most: before?.most ?? Number.NEGATIVE_INFINITY,
    total: before?.total ?? 0,
  };
  const wrong = { unknown: before?.unknown ?? 0, small: before?.small ?? 0 };
  return {
    sums: (): WeightSums => {
      const finite = (value: number) => (Number.isFinite(value) ? value : null);
      return { ...sum, least: finite(sum.least), most: finite(sum.most), ...wrong };
    },
    add({ values, nullCount, bitmap, length }: Buffers): void {
      for (let i = 0; i < length; i++) {
        const value = (values as Float64Array)[i]!;
        if (nullCount > 0 && (bitmap[i >> 3]! & (1 << (i & 7))) === 0) wrong.unknown++;
        else if (!(value > 0)) wrong.small++;
        sum.least = Math.min(sum.least, value);
        sum.most = Math.max(sum.most, value);
        sum.total += value;
      }
      sum.rows += length;
    },
    /** @throws TroupeError `recipe_invalid` where a row has no weight above 0. */
    range(): string {
      if (wrong.unknown + wrong.small > 0) {
        throw new TroupeError(
          'recipe_invalid',
          `weight is the advantage, but of ${wrong.unknown} rows it is unknown and of ${wrong.small} not above 0.`,
          {
            field: 'weight',
            expected: 'weights above 0',
            got: `${wrong.unknown} unknown, ${wrong.small} not above 0`,
            hint: 'Add to where: advantage is not null and advantage > 0.',
          },
        );
      }
      if (sum.rows === 0) return 'no rows';
      const mean = Number((sum.total / sum.rows).toPrecision(4));
      return `${sum.least} to ${sum.most}, ${mean} on average`;
    },
  };
}
