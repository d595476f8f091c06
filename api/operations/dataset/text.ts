/** Datasets as text for people. */
import { relative } from 'node:path';
import { countText, TroupeError } from '../../../errors.ts';
import type { DatasetDiff } from '../../../store/datasets/diff.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as run from './run.ts';

const totalOf = (rows: Readonly<Record<string, number>>): number =>
  Object.values(rows).reduce((sum, count) => sum + count, 0);

export const listed = ({ items, others }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length + others.length === 0
    ? 'No datasets yet. Freeze one: troupe dataset freeze RECIPE'
    : table(
        ['dataset', 'name', 'rows', 'folder', 'problem'],
        [
          ...items.map((one) => ({ ...one, id: one.dataset_id, place: one.uri })),
          ...others.map((one) => ({ ...one, id: null, place: one.directory })),
        ].map(({ id, name, rows, place, problem }) => [
          ...[id, name, rows && totalOf(rows)],
          ...[place?.startsWith('/') ? relative('.', place) : place, problem],
        ]),
      );

export function shown({ dataset_id, directory, card }: OutputOf<typeof run.show>): string {
  // Without what the card says to programs at its beginning.
  if (card !== null) return card.replace(/^---\n.*?\n---\n+/s, '').trimEnd();
  const why =
    directory === null
      ? `The files of dataset ${dataset_id} are not in this home.`
      : `${directory} has no README.md: it was removed, or the Troupe that froze the dataset wrote none.`;
  throw new TroupeError('not_found', `${why} Its manifest: troupe dataset show ${directory ?? dataset_id} --json`);
}

export const frozen = ({ funnel, rows, directory, fresh }: OutputOf<typeof run.freeze>, { table }: Printer): string =>
  `${table(
    ['filter', 'of', 'before', 'after'],
    funnel.map((stage) => [stage.name, stage.of, stage.before, stage.after]),
  )}\n${Object.entries(rows)
    .map(([split, count]) => `${count} ${split}`)
    .join(', ')} rows in ${directory}${fresh ? '' : ' (frozen before)'}`;

export const recipesText = ({ recipes }: OutputOf<typeof run.recipes>, { table }: Printer): string =>
  recipes.length === 1
    ? recipes[0]!.text.trimEnd()
    : table(
        ['recipe', 'judge first', 'about'],
        recipes.map(({ name, judge, about }) => [name, judge, about]),
      );

export const diffText = (diff: OutputOf<typeof run.diff>, { table }: Printer): string =>
  [
    diffTable(diff, table),
    ...(diff.reordered ? ['The rows that both have stand in another order.'] : []),
    ...(diff.recipe.length > 0 ? [`Their recipes differ in ${diff.recipe.join(', ')}.`] : []),
  ].join('\n');

export const freshness = (
  { name, outdated, rows, methods }: OutputOf<typeof run.outdated>,
  { table }: Printer,
): string =>
  outdated
    ? [diffTable(rows, table), ...methods.map(({ before, now }) => `It would read ${now} instead of ${before}.`)].join(
        '\n',
      )
    : `${name} is what its recipe finds now: ${countText(rows.same, 'row')}.`;

/** How many rows became what, with the first of each. */
function diffTable({ same, added, removed, changed, moved }: DatasetDiff, table: Printer['table']): string {
  const first = (rows: DatasetDiff['added']): string =>
    rows
      .slice(0, 3)
      .map(({ episode_id, step_id }) => (step_id === null ? episode_id : `${episode_id} ${step_id}`))
      .join(', ');
  return table(
    ['rows', 'count', 'for example'],
    [
      ['same', same, ''],
      ...Object.entries({ added, removed, changed, moved }).map(([kind, rows]) => [kind, rows.length, first(rows)]),
    ],
  );
}

export function exported(
  { layout, rows, made_of: all, left_out, not_held }: OutputOf<typeof run.exported>,
  { say }: Printer,
): string {
  for (const { what, count } of left_out) say(`Left out: ${count} × ${what}`);
  const lost = not_held.map(({ what, count }) => `${what} (${count})`);
  if (lost.length > 0) say(`${layout} has no place for: ${lost.join(', ')}`);
  const files = Object.entries(rows).map(([file, count]) => `${count} in ${file}`);
  // Rows may be joined to conversations or paired, and some left out.
  return `${layout}: ${files.join(', ')}${all === totalOf(rows) ? '' : `, made of ${countText(all, 'row')} of the dataset`}`;
}

export const maskText = ({ answer_form, rows }: OutputOf<typeof run.mask>, { paint }: Printer): string =>
  [
    ...(answer_form === null ? [] : [`Answers without token ids are learnt as ${JSON.stringify(answer_form)}`]),
    ...rows.map(({ row, episode_id, step_id, parts, refused }) => {
      const head = paint.bold(`row ${row}  ${[episode_id, step_id].filter((id) => id !== null).join(' ')}`);
      if (refused !== null) return `${head}\nRefused: ${refused}`;
      const texts = Object.entries(parts).map(([name, all]) => {
        const count = (of: typeof all) => of.reduce((sum, { tokens }) => sum + tokens, 0);
        const learnt = count(all.filter((part) => part.learnt));
        const text = all
          .map((part) => (part.learnt ? learntText(part.text, paint) : paint.dim(cut(part.text))))
          .join('');
        return `${name}: ${learnt} of ${count(all)} tokens are learnt\n${text}`;
      });
      return [head, ...texts].join('\n');
    }),
  ].join('\n\n');

const ENDS = 300;

const learntText = (text: string, paint: Printer['paint']): string =>
  paint.isColorSupported ? paint.green(text) : `⟦${text}⟧`;

function cut(text: string): string {
  const left = text.length - 2 * ENDS;
  return left < ENDS ? text : `${text.slice(0, ENDS)} … ${left} characters … ${text.slice(-ENDS)}`;
}
