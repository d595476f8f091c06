/** Lineage as a person reads it: a tree each way. */

import { countText } from '../../../errors.ts';
import { type Branches, LINEAGE_LIMIT, type Lineage, type LineageNode } from '../../../store/explore/lineage.ts';
import type { OutputOf } from '../operation.ts';
import type { lineage } from './run.ts';

/** Several lines, without the last line break. */
export function lineageTree({ kind, id, erasures, spoke, comes_from, led_to }: Lineage): string {
  const generated =
    spoke === null || spoke.steps === 0
      ? ''
      : ` (generated ${countText(spoke.steps, 'step')} in ${countText(spoke.episodes, 'episode')})`;
  return [
    `${kind} ${id}${generated}${markText(erasures)}`,
    '├─ comes from',
    ...branches(comes_from, '│  ', 'nothing recorded'),
    '└─ led to',
    ...branches(led_to, '   ', 'nothing recorded'),
  ].join('\n');
}

function branches({ children, left_out, cut }: Branches, indent: string, none: string | null): readonly string[] {
  if (cut === 'repeated') return [`${indent}└─ … as at its other place in this tree`];
  if (cut === 'limit') return [`${indent}└─ … not followed: a tree lists ${LINEAGE_LIMIT} things`];
  if (children.length === 0) return none === null ? [] : [`${indent}└─ ${none}`];
  const lines = children.flatMap((child, i) => {
    const last = i === children.length - 1 && left_out === 0;
    return [
      `${indent}${last ? '└─' : '├─'} ${sentence(child)}`,
      ...branches(child, `${indent}${last ? '   ' : '│  '}`, null),
    ];
  });
  return left_out === 0 ? lines : [...lines, `${indent}└─ … and ${left_out} more`];
}

const markText = (erasures: LineageNode['erasures']): string =>
  erasures === null ? '' : `; used what was erased (${erasures.join(', ')})`;

function sentence({ kind, id, relation, rows, episodes, steps, erasures }: LineageNode): string {
  const amounts = [
    ...(rows === null ? [] : [countText(rows, 'row')]),
    ...(steps === null ? [] : [countText(steps, 'step')]),
    ...(episodes === null ? [] : [countText(episodes, 'episode')]),
  ];
  return `${kind} ${id} ${relation}${amounts.length === 0 ? '' : ` (${amounts.join(', ')})`}${markText(erasures)}`;
}

export const found = ({ found: things, pruned }: OutputOf<typeof lineage>): string =>
  [
    ...things.map(lineageTree),
    ...pruned.map(
      ({ uri, episodes, first_episode_id: first }) =>
        `${episodes === 1 ? `Episode ${first} was` : `${episodes} of these episodes were`} pruned into ${uri}.`,
    ),
  ].join('\n\n');
