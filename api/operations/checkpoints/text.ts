/** Checkpoints as text for people. */
import { countText } from '../../../errors.ts';
import { bytesText } from '../bytes.ts';
import type { OutputOf, Printer } from '../operation.ts';
import type * as looks from './folder.ts';
import type * as moves from './move.ts';
import type * as run from './run.ts';

export const listed = ({ items }: OutputOf<typeof run.list>, { table }: Printer): string =>
  items.length === 0
    ? 'No checkpoints yet.'
    : table(
        ['checkpoint', 'policy', 'parent', 'adapter over', 'saved', 'where', 'used what was erased'],
        items.map((one) => [
          ...[one.checkpoint_id, one.policy, one.parent_id, one.adapter_base, one.saved_at, one.uri],
          one.erasures?.join(', ') ?? null,
        ]),
      );

export const added = ({ checkpoint_id, policy }: OutputOf<typeof run.add>): string =>
  `Checkpoint ${checkpoint_id} of policy ${policy} is recorded.`;

export function inFolder({ directory, quick, checkpoints }: OutputOf<typeof looks.folder>, { table }: Printer) {
  if (checkpoints.length === 0) return `No checkpoints in ${directory}.`;
  const rows = checkpoints.map((one) => [
    `${one.checkpoint_id}${one.latest ? ' ← latest' : ''}`,
    one.step,
    one.parent,
    one.metrics && metricsText(one.metrics),
    one.bytes === null ? null : bytesText(one.bytes),
    one.fault ?? (quick ? 'whole' : 'sound'),
    one.erasures?.join(', ') ?? null,
  ]);
  return table(['checkpoint', 'step', 'parent', 'metrics', 'size', 'state', 'used what was erased'], rows);
}

export const latest = ({ directory }: OutputOf<typeof looks.latest>): string => directory;

export function shown(one: OutputOf<typeof looks.show>, { table, paint }: Printer): string {
  const facts = {
    checkpoint: one.checkpoint_id,
    directory: one.directory,
    step: String(one.step),
    adapter: one.adapter_text,
    metrics: metricsText(one.metrics),
    datasets: one.datasets.join(', ') || null,
    plan: one.plan_hash,
    seed: one.seed === null ? null : String(one.seed),
    'log positions': JSON.stringify(one.log_positions),
    code: one.code_version,
    files: `${Object.keys(one.files).sort().join(', ')} (${bytesText(one.bytes)})`,
  };
  const before = one.ancestors.map(({ checkpoint_id, found, step, metrics }) => {
    const about = found ? `step ${step}  ${metricsText(metrics)}` : paint.dim('not in the folder');
    return `  ← ${checkpoint_id}  ${about}`.trimEnd();
  });
  return [table(['what', 'value'], Object.entries(facts)), ...before].join('\n');
}

export const verified = ({ checkpoints }: OutputOf<typeof looks.verify>): string => {
  const damaged = checkpoints.filter(({ sound }) => !sound);
  return [
    ...damaged.map(({ checkpoint_id, fault }) => `${checkpoint_id}: ${fault}`),
    `Sound: ${checkpoints.length - damaged.length} of ${countText(checkpoints.length, 'checkpoint')}.`,
  ].join('\n');
};

export function pruned({ kept, removed, dry_run, bytes }: OutputOf<typeof moves.prune>, { table }: Printer): string {
  const rows = [
    ...kept.map(({ id, why }) => [id, 'kept', why.join(', ')]),
    ...removed.map((one) => [
      ...[one.id, dry_run ? 'to remove' : 'removed', `step ${one.step}, ${bytesText(one.bytes)}`],
    ]),
  ];
  return [
    ...(rows.length > 0 ? [table(['checkpoint', 'what', 'why'], rows)] : []),
    `${dry_run ? 'It would remove' : 'Removed:'} ${countText(removed.length, 'checkpoint')}, ${bytesText(bytes)}; kept: ${kept.length}.`,
  ].join('\n');
}

export const pushed = ({ checkpoint_id, store, sent, kept, bytes }: OutputOf<typeof moves.push>): string =>
  `${checkpoint_id} is in ${store}: ${countText(sent.length, 'file')} sent (${bytesText(bytes)})${kept.length === 0 ? '' : `, ${kept.length} were there`}`;

export const pulled = ({ checkpoint_id, directory, bytes }: OutputOf<typeof moves.pull>): string =>
  `${checkpoint_id} is in ${directory} (${bytesText(bytes)})`;

const metricsText = (metrics: Readonly<Record<string, number | null>>): string =>
  Object.entries(metrics)
    .map(([name, value]) => `${name} ${value === null ? '–' : Number(value.toPrecision(5))}`)
    .join(', ');
