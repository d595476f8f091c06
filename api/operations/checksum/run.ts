/** What the operation checksum does and prints. */
import { type Checksum, checksum as checksumOf } from '../../../store/projecting/rebuilding/checksum.ts';
import type { Printer, ReadContext } from '../operation.ts';

export async function checksum({ db, catchUp, patiently }: ReadContext) {
  await catchUp();
  return patiently(() => checksumOf(db));
}

export const sumsText = ({ tables }: Checksum, { table }: Printer): string =>
  table(
    ['table', 'rows', 'sha256'],
    Object.entries(tables).map(([name, { rows, sha256 }]) => [name, rows, sha256]),
  );
