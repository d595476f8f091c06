/** What operations on views do. */
import { got, TroupeError } from '../../../errors.ts';
import { bareName, listViews, nearestView } from '../../../store/explore/sql/views.ts';
import { type PageRequest, pageOf } from '../lists.ts';
import type { ReadContext } from '../operation.ts';

export async function list({ db }: ReadContext, page: PageRequest) {
  const views = (await listViews(db)).map(({ columns, ...view }) => ({ ...view, columns: columns.length }));
  return pageOf(views, 'name', page);
}

export async function show({ db }: ReadContext, { view: wanted }: { readonly view: string }) {
  const views = await listViews(db);
  const view = views.find(({ name }) => name === wanted || bareName(name) === wanted);
  if (view !== undefined) return view;
  const meant = nearestView(wanted, views);
  throw new TroupeError('not_found', `There is no view ${got(wanted)}.${meant ? ` Did you mean ${meant}?` : ''}`, {
    field: 'view',
    expected: views.map(({ name }) => name).join(', '),
    got: got(wanted),
    hint: '`troupe views` lists them.',
  });
}
