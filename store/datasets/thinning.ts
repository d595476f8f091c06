/**
 * What a recipe may ask of the rows that meet its conditions: that there be fewer of them. Each field is there in a canonical recipe
 * only where it is asked for, so that recipes without it keep their identity.
 */
import { type Static, Type } from 'typebox';
import { TroupeError } from '../../errors.ts';
import { isWhole, type Unit } from './columns.ts';

const Seed = Type.Optional(
  Type.Union([Type.Integer(), Type.String()], { description: 'another seed chooses others; 0 if left out' }),
);
const OF = ['task', 'group', 'role'] as const;
const TAKE = ['random', 'best'] as const;

const CapInput = Type.Object(
  {
    of: Type.Enum([...OF], { description: 'an episode without a task or group stands for itself' }),
    rows: Type.Integer({ minimum: 1, description: 'at most so many' }),
    take: Type.Optional(
      Type.Enum([...TAKE], {
        description:
          'random: by a hash of seed and ids, the default · best: by advantage, or reward where that is unknown; of pairs by margin',
      }),
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

/** The fields of a recipe as people write them. */
export const thinningFields = {
  decontaminate: Type.Optional(
    Type.Union([DecontaminateInput, Type.Null()], {
      description: 'no row that has read or written what stands in one of these files',
    }),
  ),
  near_duplicates: Type.Optional(
    Type.Union([NearInput, Type.Null()], { description: 'no row that says nearly the same as an earlier one' }),
  ),
  caps: Type.Optional(
    Type.Union([Type.Array(CapInput), Type.Null()], {
      description: 'at most so many rows of a task, group or role, one cap after the other',
    }),
  ),
};
type Input = {
  readonly decontaminate?: Static<typeof DecontaminateInput> | null;
  readonly near_duplicates?: Static<typeof NearInput> | null;
  readonly caps?: readonly Static<typeof CapInput>[] | null;
};

/** A file with the SHA-256 it must have; null where it may be any. What is frozen pins it. */
export type BenchmarkFile = { readonly name: string; readonly sha256: string | null };
export type Decontaminate = { readonly files: readonly BenchmarkFile[]; readonly words: number };
export type NearDuplicatesAsked = { readonly threshold: number; readonly characters: number };

/** At most `rows` rows of each task, group or role. */
export type Cap = {
  readonly of: (typeof OF)[number];
  readonly rows: number;
  readonly take: (typeof TAKE)[number];
  readonly seed: string;
};

export type Thinning = {
  readonly decontaminate?: Decontaminate;
  readonly near_duplicates?: NearDuplicatesAsked;
  readonly caps?: readonly Cap[];
};

/** The canonical fields. @throws TroupeError `recipe_invalid` where the unit has no rows of that kind. */
export function thinningOf(unit: Unit, { decontaminate, near_duplicates: near, caps }: Input): Thinning {
  return {
    ...(decontaminate ? { decontaminate: decontaminateOf(decontaminate) } : {}),
    ...(near ? { near_duplicates: { threshold: near.threshold, characters: near.characters ?? 5 } } : {}),
    ...(caps && caps.length > 0 ? { caps: caps.map((cap, i) => capOf(unit, cap, `caps[${i}]`)) } : {}),
  };
}

function decontaminateOf({ files, words = 13 }: Static<typeof DecontaminateInput>): Decontaminate {
  const named = files.map((file) => (typeof file === 'string' ? { name: file } : file));
  return { files: named.map(({ name, sha256 }) => ({ name, sha256: sha256 ?? null })), words };
}

function capOf(unit: Unit, { of, rows, take = 'random', seed = 0 }: Static<typeof CapInput>, at: string): Cap {
  if (of === 'role' && isWhole(unit)) {
    throw new TroupeError('recipe_invalid', `${at} is of a role, but a row of unit ${unit} has several roles.`, {
      field: at,
      expected: 'of: task or group',
      got: 'of: role',
    });
  }
  return { of, rows, take, seed: String(seed) };
}

export const capText = ({ of, rows, take }: Cap): string =>
  `at most ${rows} of a ${of}, ${take === 'best' ? 'the best' : 'by chance'}`;

export const decontaminateText = ({ files, words }: Decontaminate): string =>
  `no ${words} words in a row of ${files.map(({ name }) => name).join(', ')}`;

export const nearText = ({ threshold, characters }: NearDuplicatesAsked): string =>
  `no text near an earlier one (${threshold} of ${characters} characters in a row)`;
