/** API keys: made, shown once, listed, revoked. */
import type { Command } from 'commander';
import { got, TroupeError } from '../../errors.ts';
import { SCOPES, type Scope } from '../../store/keys/api-key.ts';
import { createKey, type ListedKey, listKeys, revokeKey } from '../../store/keys/api-keys.ts';
import { databaseCommand } from '../command.ts';
import { answer, print, printJson, say, table } from '../output.ts';

const UNITS = { m: 60, h: 3600, d: 86_400, w: 604_800, y: 31_536_000 } as const;
/** No longer than a calendar of four digits. */
const LONGEST_DAYS = 36_500;

export function addTo(program: Command): void {
  const key = program
    .command('key')
    .addHelpText(
      'after',
      '\nUntil the first key is created, only this machine may connect, and it needs no key.\n\nExamples:\n  troupe key create --scopes ingest --name agents\n  troupe key list',
    );

  databaseCommand(
    key
      .command('create')
      .description('create a key; it is shown only once')
      .requiredOption('--scopes <list>', `permissions, separated by commas: ${SCOPES.join(', ')}`)
      .requiredOption('--name <text>', 'purpose of the key')
      .option('--expires <time>', 'lifetime: 90d, 12h, 4w, 1y, or never', '90d')
      .addHelpText(
        'after',
        '\ningest: events and the gateway · read: lists, episodes, the page · admin: everything.\n\nExamples:\n  troupe key create --scopes ingest --name agents\n  troupe key create --scopes read,sql --expires 4w --name dashboard\n  export TROUPE_KEY=$(troupe key create --scopes ingest --name ci --quiet)',
      ),
    async ({ db, now }, _, flags) => {
      const name = String(flags.name).trim();
      if (name === '' || name.length > 200) throw new TroupeError('usage', '--name should have 1 to 200 characters.');
      const scopes = readScopes(String(flags.scopes));
      const expiresAt = endOf(String(flags.expires), now());
      const { text, lookup } = await createKey(db, { name, scopes, expiresAt });
      if (flags.json) printJson({ key: text, lookup, name, scopes, expires_at: expiresAt?.toISOString() ?? null });
      else {
        print(text);
        const end = expiresAt === null ? '' : ` and ends on ${expiresAt.toISOString().slice(0, 10)} (--expires)`;
        if (!flags.quiet) say(`It is not shown again${end}. Revoke it with: troupe key revoke ${lookup}`);
      }
    },
  );

  databaseCommand(
    key
      .command('list')
      .description('list the keys, without their secrets')
      .addHelpText('after', '\nExample:\n  troupe key list --json'),
    async ({ db, now }, _, flags) => {
      const keys = (await listKeys(db)).map((one) => ({ ...one, state: stateOf(one, now()) }));
      if (flags.json) printJson({ keys });
      else
        print(
          keys.length === 0
            ? 'No keys: this machine alone is answered, and needs none.'
            : table(
                ['key', 'name', 'scopes', 'state', 'created', 'expires'],
                keys.map((k) => [k.lookup, k.name, k.scopes.join(','), k.state, k.created_at, k.expires_at]),
              ),
        );
    },
  );

  databaseCommand(
    key
      .command('revoke')
      .description('revoke a key: every process refuses it within 30 seconds')
      .argument('<key>', 'the part that `key list` shows, or its name')
      .addHelpText('after', '\nExamples:\n  troupe key revoke 04kXZqQ2mB7\n  troupe key revoke dashboard'),
    async ({ db }, [which], flags) => {
      // A whole key is accepted too: its lookup part identifies it.
      const { lookup, name } = await revokeKey(db, /^troupe_([0-9A-Za-z]{11})_/.exec(which!)?.[1] ?? which!);
      answer(flags, { lookup, name, state: 'revoked' }, `Revoked: ${lookup} (${name})`);
    },
  );
}

const stateOf = ({ revoked_at, expires_at }: ListedKey, now: Date): string => {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= now.getTime() ? 'expired' : 'live';
};

function readScopes(text: string): Scope[] {
  const scopes = [...new Set(text.split(',').map((scope) => scope.trim()))].filter((scope) => scope !== '');
  const unknown = scopes.filter((scope) => !(SCOPES as readonly string[]).includes(scope));
  if (unknown.length > 0 || scopes.length === 0) {
    throw new TroupeError('usage', `--scopes should name some of ${SCOPES.join(', ')}, but it is ${got(text)}.`);
  }
  return scopes as Scope[];
}

function endOf(text: string, now: Date): Date | null {
  if (text === 'never') return null;
  const [, count, unit] = /^(\d{1,6})([mhdwy])$/.exec(text) ?? [];
  const seconds = Number(count) * UNITS[unit as keyof typeof UNITS];
  if (seconds > 0 && seconds <= LONGEST_DAYS * UNITS.d) return new Date(now.getTime() + seconds * 1000);
  throw new TroupeError(
    'usage',
    `--expires should be a time such as 90d, 12h, 4w, 1y, or never, but it is ${got(text)}.`,
  );
}
