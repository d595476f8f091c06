/** What the operation upgrade does. */
import { resolve } from 'node:path';
import { countText, TroupeError } from '../../../errors.ts';
import { upgradeHome } from '../../../store/server/backup/upgrade.ts';
import { openHome } from '../../../store/server/home.ts';
import type { OutputOf, ReadContext } from '../operation.ts';

export async function upgrade(
  { home: { root }, server, version, now }: ReadContext,
  { from }: { readonly from: string },
) {
  if ((await server()).databaseUrl !== undefined)
    throw new TroupeError(
      'usage',
      'DATABASE_URL names a server of yours; it is upgraded by its own tools. Only the embedded one is upgraded here.',
    );
  return { home: root, ...(await upgradeHome(openHome(root), { from: resolve(from), version, now: now() })) };
}

export const text = ({ home, from, to, projects, kept }: OutputOf<typeof upgrade>): string =>
  kept === null
    ? `The database of ${home} has PostgreSQL ${to} already.`
    : `PostgreSQL ${from} to ${to}: ${projects.map(({ project, rows }) => `${project} (${countText(rows, 'row')})`).join(', ') || 'no projects'}. The old database is ${kept}; remove it once you are sure.`;
