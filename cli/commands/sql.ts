/** `troupe sql url` and `troupe sql listen`: a login for other programs. */
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { databaseCommand, type Flags, untilInterrupted, wholeNumber } from '../command.ts';
import type { OpenDatabase } from '../database.ts';
import { answer, say } from '../output.ts';

export function addTo(sql: Command): void {
  databaseCommand(
    sql
      .command('url')
      .description('print the address at which psql and other programs log in, with its password')
      .addHelpText('after', '\nExample:\n  psql "$(troupe sql url)" -c "select count(*) from traj.episodes"'),
    (opened, _, flags) => printUrl(opened, flags),
  );
  databaseCommand(
    sql
      .command('listen')
      .argument('<port>', 'TCP port of 127.0.0.1; 0 for any that is free', wholeNumber('port'))
      .description('accept such programs at a TCP port of this machine, until Ctrl-C')
      .addHelpText('after', '\nExample:\n  troupe sql listen 5433'),
    (opened, [port], flags) => takeTools(opened, Number(port), flags),
  );
}

/** @throws TroupeError `sql_refused` where the server lets no login be made */
async function loginOf({ database }: OpenDatabase): Promise<URL> {
  const { noReader, toolAddress } = await import('../../store/db/reader.ts');
  const address = await toolAddress(database);
  if (address === null) throw noReader();
  return address;
}

/** As libpq reads it: a socket's folder stands behind the question mark. */
function urlOf({ username, password, hostname, port, pathname, href }: URL): string {
  if (!hostname.startsWith('%2F')) return href.replace(/^postgres:/, 'postgresql:');
  return `postgresql://${username}:${password}@${pathname}?host=${hostname}&port=${port || 5432}`;
}

async function printUrl(opened: OpenDatabase, flags: Flags): Promise<number> {
  const url = urlOf(await loginOf(opened));
  answer(flags, { url }, url);
  if (opened.database.embedded) say('The embedded server runs while `troupe up` or `troupe sql listen` does.');
  return EXIT.done;
}

async function takeTools(opened: OpenDatabase, port: number, flags: Flags): Promise<number> {
  if (!opened.database.embedded)
    throw new TroupeError(
      'usage',
      '`troupe sql listen` is for the embedded server; DATABASE_URL names one with a port of its own.',
      {
        hint: '`troupe sql url` prints the address at which programs log in there.',
      },
    );
  const address = await loginOf(opened);
  const [{ listenError }, { openToolPort }, { watchTools }, { BACKEND_BYTES, readerRole, toolRole, TOOL_MS }] =
    await Promise.all([
      import('../../api/http/serve.ts'),
      import('../../store/server/tool-port.ts'),
      import('../../store/server/tool-clock.ts'),
      import('../../store/db/reader.ts'),
    ]);
  const socket = `${decodeURIComponent(address.hostname)}/.s.PGSQL.${address.port || 5432}`;
  const role = toolRole(opened.database);
  const login = { user: role, database: opened.database.project };
  const listening = await openToolPort(port, socket, login).catch((error) => {
    throw listenError(error, { host: '127.0.0.1', port, flag: 'port' });
  });
  address.hostname = '127.0.0.1';
  address.port = String(listening.port);
  const url = urlOf(address);
  answer(flags, { url, port: listening.port }, url);
  say(`Programs log in at port ${listening.port} of this machine · Ctrl-C ends it.`);
  const signal = untilInterrupted();
  const own = readerRole(opened.database);
  await watchTools(opened.db, role, { ms: TOOL_MS, bytes: BACKEND_BYTES, own, signal });
  await listening.close();
  return EXIT.done;
}
