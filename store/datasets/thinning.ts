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

/** The fields of a recipe as people write them. */
export const thinningFields = {
  caps: Type.Optional(
    Type.Union([Type.Array(CapInput), Type.Null()], {
      description: 'at most so many rows of a task, group or role, one cap after the other',
    }),
  ),
};
type Input = { readonly caps?: readonly Static<typeof CapInput>[] | null };

/** At most `rows` rows of each task, group or role. */
export type Cap = {
  readonly of: (typeof OF)[number];
  readonly rows: number;
  readonly take: (typeof TAKE)[number];
  readonly seed: string;
};

export type Thinning = { readonly caps?: readonly Cap[] };

/** The canonical fields. @throws TroupeError `recipe_invalid` where the unit has no rows of that kind. */
export function thinningOf(unit: Unit, { caps }: Input): Thinning {
  return { ...(caps && caps.length > 0 ? { caps: caps.map((cap, i) => capOf(unit, cap, `caps[${i}]`)) } : {}) };
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
