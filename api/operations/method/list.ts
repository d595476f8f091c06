/** What the list of methods does: it loads them all. */
import { OWN_METHODS } from '../../../store/evaluate/methods/catalogue.ts';
import { METHODS } from '../../../store/evaluate/methods/find.ts';
import { LOSS_METHODS } from '../../../trainer/model/losses/catalogue.ts';
import { type PageRequest, pageOf } from '../lists.ts';
import { described } from './run.ts';

export const list = async (_: unknown, { kind, ...page }: PageRequest & { readonly kind?: string }) =>
  pageOf(
    [...OWN_METHODS, ...METHODS, ...LOSS_METHODS]
      .filter((one) => kind === undefined || one.kind === kind)
      .map(described),
    'name',
    page,
  );
