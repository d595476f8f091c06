/** Rows of a dataset of steps, as a frozen file holds them, for tests of layouts. */
import type { ArrowRow } from '../../../../store/datasets/arrow.ts';
import { counter } from '../../../../store/datasets/layouts/counter.ts';
import type { Layout, LayoutFile } from '../../../../store/datasets/layouts/layout.ts';
import { turnsOf } from '../../../../store/datasets/layouts/turn.ts';

export const WEATHER = { type: 'function', function: { name: 'weather', parameters: { type: 'object' } } };
export const CALL = { type: 'tool_call', id: 'call_1', name: 'weather', arguments: { city: 'Oslo' } };
export const ASKED = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: 'Rain in Oslo?' },
];

let rows = 0;

/** A row with what `cells` say; the rest is unknown. */
export function row(cells: Readonly<Record<string, unknown>>): ArrowRow {
  const call = `call-${rows++}`;
  const plain = { episode_id: 'e', call_id: call, candidate: 0, step_id: `${call}/0`, agent: 'guide', role: 'guide' };
  const text = ['prompt', 'content', 'tools', 'ground_truth'].flatMap((name) =>
    cells[name] === undefined ? [] : [[name, JSON.stringify(cells[name])]],
  );
  return { ...plain, ...cells, ...Object.fromEntries(text) } as ArrowRow;
}

/** The conversation of a call of a tool and the answer after it, as two rows. */
export const weatherRows = (): ArrowRow[] => [
  row({ prompt: ASKED, content: [{ type: 'reasoning', content: 'Ask the tool.' }, CALL], tools: [WEATHER] }),
  row({
    prompt: [
      ...ASKED,
      { role: 'assistant', content: [CALL] },
      { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
    ],
    text: 'Yes.',
    tools: [WEATHER],
  }),
];

/** The files of a layout for rows that are all of one split, and what it left out or lost. */
export function laidOut(layout: Layout, of: readonly ArrowRow[]) {
  const [leftOut, notHeld] = [counter(), counter()];
  const turns = turnsOf(of, 'step', notHeld);
  const files = layout.files([{ split: 'train', turns }], { name: 'test', leftOut, notHeld });
  const rowsOf = (file: LayoutFile) =>
    file.kind === 'text' ? [] : file.rows.map((one) => JSON.parse(JSON.stringify(one)));
  return { files, rows: files.flatMap(rowsOf), leftOut: leftOut.list(), notHeld: notHeld.list(), turns };
}
