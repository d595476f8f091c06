/**
 * What a recipe may ask of the rows that meet its conditions: that there be fewer of them. Each field is there in a canonical recipe
 * only where it is asked for, so that recipes without it keep their identity.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import { filterText } from '../filter/filter-text.ts';
import { type Filter, factsOf, filterSchema, looksAt, parseFilter } from '../filter/select.ts';
import { isWhole, type Unit } from './columns.ts';

const Seed = Type.Optional(
  Type.Union([Type.Integer(), Type.String()], { description: 'another seed chooses others; 0 if left out' }),
);
const OF = ['task', 'group', 'role', 'all'] as const;
const TAKE = ['random', 'best', 'diverse'] as const;

const CapInput = Type.Object(
  {
    of: Type.Enum([...OF], {
      description: 'all: of the whole dataset · an episode without a task or group stands for itself',
    }),
    rows: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'at most so many' }),
    take: Type.Optional(
      Type.Enum([...TAKE], {
        description:
          'random: by a hash of seed and ids, the default · best: by `by`, else by advantage, or reward where that is unknown; of pairs by margin · diverse: those whose texts are least alike',
      }),
    ),
    by: Type.Optional(
      Type.String({ minLength: 1, description: 'a number of a filter that best goes by, such as score(METHOD)' }),
    ),
    seed: Seed,
  },
  { additionalProperties: false },
);

const FileName = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$',
  description: 'of a file in the folder benchmarks of the home: JSON Lines, or text',
});
const DecontaminateInput = Type.Object(
  {
    files: Type.Array(
      Type.Union([
        FileName,
        Type.Object(
          {
            name: FileName,
            sha256: Type.Optional(Type.Union([Type.String({ pattern: '^[0-9a-f]{64}$' }), Type.Null()])),
          },
          { additionalProperties: false },
        ),
      ]),
      { minItems: 1 },
    ),
    words: Type.Optional(
      Type.Integer({ minimum: 4, maximum: 100, description: 'so many in a row are the same; 13 if left out' }),
    ),
  },
  { additionalProperties: false },
);
const NearInput = Type.Object(
  {
    threshold: Type.Number({
      minimum: 0.3,
      maximum: 0.95,
      description: 'share of n-grams that two texts have in common (Jaccard) from which they are near',
    }),
    characters: Type.Optional(
      Type.Integer({ minimum: 2, maximum: 100, description: 'length of the n-grams; 5 if left out' }),
    ),
  },
  { additionalProperties: false },
);

const Rate = (description: string) => Type.Optional(Type.Number({ minimum: 0, maximum: 1, description }));
const PassRateInput = Type.Object(
  {
    of: Type.Union([
      Type.String({ description: 'filter over whole episodes: those that the pass rate of a task is counted over' }),
      filterSchema,
    ]),
    least: Rate('no row of a task with a lower pass rate; 0 if left out'),
    most: Rate('no row of a task with a higher pass rate; 1 if left out'),
  },
  { additionalProperties: false },
);

/** The fields of a recipe as people write them. */
export const thinningFields = {
  pass_rate: Type.Optional(
    Type.Union([PassRateInput, Type.Null()], {
      description:
        'pass rate of the task: only rows between least and most, and what order easy_first and hard_first go by',
    }),
  ),
  decontaminate: Type.Optional(
    Type.Union([DecontaminateInput, Type.Null()], {
      description: 'no row that has read or written what stands in one of these files',
    }),
  ),
  near_duplicates: Type.Optional(
    Type.Union([NearInput, Type.Null()], { description: 'no row that says nearly the same as an earlier one' }),
  ),
  caps: Type.Optional(
    Type.Union([Type.Array(CapInput, { maxItems: 100 }), Type.Null()], {
      description: 'at most so many rows of a task, group or role, or in all, one cap after the other',
    }),
  ),
};
type Input = {
  readonly pass_rate?: Static<typeof PassRateInput> | null;
  readonly decontaminate?: Static<typeof DecontaminateInput> | null;
  readonly near_duplicates?: Static<typeof NearInput> | null;
  readonly caps?: readonly Static<typeof CapInput>[] | null;
};

/** A file with the SHA-256 it must have; null where it may be any. What is frozen pins it. */
export type BenchmarkFile = { readonly name: string; readonly sha256: string | null };
export type Decontaminate = { readonly files: readonly BenchmarkFile[]; readonly words: number };
export type NearDuplicatesSetting = { readonly threshold: number; readonly characters: number };

/** Length of the n-grams of characters that texts are compared by, where nothing else is asked for. */
export const CHARACTERS = 5;

/** At most `rows` rows of each task, group or role, or of all. */
export type Cap = {
  readonly of: (typeof OF)[number];
  readonly rows: number;
  readonly take: (typeof TAKE)[number];
  /** The field that `best` goes by; without it the advantage, or the reward where that is unknown. */
  readonly by?: string;
  readonly seed: string;
};

/** Over which episodes pass rates are counted, and between which rates the task of a row is. From 0 to 1 every row stays. */
export type PassRate = { readonly of: Filter; readonly least: number; readonly most: number };

export type Thinning = {
  readonly pass_rate?: PassRate;
  readonly decontaminate?: Decontaminate;
  readonly near_duplicates?: NearDuplicatesSetting;
  readonly caps?: readonly Cap[];
};

/** The canonical fields. @throws TroupeError `recipe_invalid` where the unit has no rows of that kind. */
export function thinningOf(
  unit: Unit,
  { pass_rate: rate, decontaminate, near_duplicates: near, caps }: Input,
): Thinning {
  return {
    ...(rate ? { pass_rate: passRateOf(rate) } : {}),
    ...(decontaminate ? { decontaminate: decontaminateOf(decontaminate) } : {}),
    ...(near ? { near_duplicates: { threshold: near.threshold, characters: near.characters ?? CHARACTERS } } : {}),
    ...(caps && caps.length > 0 ? { caps: caps.map((cap, i) => capOf(unit, cap, `caps[${i}]`)) } : {}),
  };
}

function passRateOf({ of, least = 0, most = 1 }: Static<typeof PassRateInput>): PassRate {
  const filter = parseFilter(of, 'pass_rate.of');
  if (looksAt(filter, 'step')) {
    throw new TroupeError(
      'recipe_invalid',
      `pass_rate.of chooses whole episodes, but "${filterText(filter)}" looks at single steps.`,
      {
        field: 'pass_rate.of',
        expected: 'fields of episodes, tasks and groups',
        got: filterText(filter),
        hint: 'count(steps where checkpoint_id = ID) > 0 finds the episodes with such a step',
      },
    );
  }
  if (least > most) {
    throw new TroupeError('recipe_invalid', `pass_rate.least is ${least}, above pass_rate.most, which is ${most}.`, {
      field: 'pass_rate',
      expected: 'least at or below most',
      got: `${least} to ${most}`,
    });
  }
  return { of: filter, least, most };
}

export const hasBand = ({ least, most }: PassRate): boolean => least > 0 || most < 1;

function decontaminateOf({ files, words = 13 }: Static<typeof DecontaminateInput>): Decontaminate {
  const named = files.map((file) => (typeof file === 'string' ? { name: file } : file));
  return { files: named.map(({ name, sha256 }) => ({ name, sha256: sha256 ?? null })), words };
}

function capOf(unit: Unit, { of, rows, take = 'random', by, seed = 0 }: Static<typeof CapInput>, at: string): Cap {
  if (of === 'role' && isWhole(unit)) {
    throw new TroupeError('recipe_invalid', `${at} is of a role, but a row of unit ${unit} has several roles.`, {
      field: at,
      expected: 'of: task or group',
      got: 'of: role',
    });
  }
  if (unit === 'pair' && (take === 'diverse' || by !== undefined)) {
    throw new TroupeError('recipe_invalid', `${at} counts pairs, of which random and best by margin can be taken.`, {
      field: at,
      expected: 'take: random or best, without by',
      got: by === undefined ? `take: ${take}` : `by: ${by}`,
    });
  }
  return { of, rows, take, ...(by === undefined ? {} : { by: numberField(by, take, `${at}.by`) }), seed: String(seed) };
}

/** @throws TroupeError `recipe_invalid` for a field that is no number, or that nothing goes by. */
function numberField(by: string, take: Cap['take'], at: string): string {
  const { kind, name } = factsOf(by, at);
  const wrong = take !== 'best' ? `take: ${take} goes by no field` : `${name} is no number`;
  if (take === 'best' && (kind === 'number' || kind === 'integer')) return name;
  throw new TroupeError('recipe_invalid', `${at}: ${wrong}.`, {
    field: at,
    expected: 'a number of a filter, such as score(METHOD), beside take: best',
    got: by,
  });
}

const TAKEN: Readonly<Record<Cap['take'], string>> = {
  random: 'by chance',
  best: 'the best',
  diverse: 'the least alike',
};

export const capText = ({ of, rows, take, by }: Cap): string =>
  `at most ${rows} ${of === 'all' ? 'in all' : `of a ${of}`}, ${TAKEN[take]}${by === undefined ? '' : ` by ${by}`}`;

export const decontaminateText = ({ files, words }: Decontaminate): string =>
  `no ${words} words in a row of ${files.map(({ name }) => name).join(', ')}`;

export const nearText = ({ threshold, characters }: NearDuplicatesSetting): string =>
  `no text near an earlier one (${threshold} of ${characters} characters in a row)`;
