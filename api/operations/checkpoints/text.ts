/** Checkpoints as text for people. */
import type { Printer } from '../operation.ts';
import type { list } from './run.ts';

export const listed = ({ items }: Awaited<ReturnType<typeof list>>, { table }: Printer): string =>
  items.length === 0
    ? 'No checkpoints yet.'
    : table(
        ['checkpoint', 'policy', 'parent', 'adapter over', 'saved', 'where', 'used what was erased'],
        items.map((one) => [
          ...[one.checkpoint_id, one.policy, one.parent_id, one.adapter_base, one.saved_at, one.uri],
          one.erasures?.join(', ') ?? null,
        ]),
      );
