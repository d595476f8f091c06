/**
 * A TCP port of this machine at which one login, and no other, comes to the server's Unix socket. Of what a client says only its first
 * messages are read (PostgreSQL's protocol, "Start-up"); everything after them passes as it is, SCRAM included.
 */
import { connect, createServer, type Socket } from 'node:net';

const SSL_REQUEST = 80877103;
const GSS_REQUEST = 80877104;
const CANCEL_REQUEST = 80877102;
/** As PostgreSQL itself takes it. */
const LONGEST_START = 10_000;
/** Until the server has let a client in. Before that it has a connection of the server, and has shown nothing. */
const START_MS = 10_000;
/** Clients at once: the 32 connections of the login, and some that log in or cancel. The server has 200 for everybody. */
const MOST = 40;
/** How long one too many may take to read that. */
const FULL_MS = 1000;

export type ToolPort = { readonly port: number; close(): Promise<void> };

export type Login = { readonly user: string; readonly database: string };

/**
 * Listens on 127.0.0.1; port 0 is any that is free. Other logins get an error and are refused before they reach the server.
 * @throws what `listen` throws, as EADDRINUSE
 */
export async function openToolPort(port: number, socketPath: string, login: Login): Promise<ToolPort> {
  const open = new Set<Socket>();
  const listener = createServer((client) => {
    client.on('error', () => client.destroy());
    if (open.size >= MOST) {
      setTimeout(() => client.destroy(), FULL_MS);
      return client.resume().end(refusal('53300', `this port takes ${MOST} connections at once`));
    }
    open.add(client);
    client.once('close', () => open.delete(client));
    begin(client, socketPath, login);
  });
  await new Promise<void>((resolve, reject) => {
    listener.once('error', reject);
    listener.listen(port, '127.0.0.1', resolve);
  });
  return {
    port: (listener.address() as { port: number }).port,
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}

/** Reads the first messages; then both sides are joined, or the client is turned away. */
function begin(client: Socket, socketPath: string, login: Login): void {
  const late = setTimeout(() => client.destroy(), START_MS);
  client.once('close', () => clearTimeout(late));
  let held = Buffer.alloc(0);
  const read = (chunk: Buffer) => {
    held = Buffer.concat([held, chunk]);
    while (held.length >= 8) {
      const [length, code] = [held.readInt32BE(0), held.readInt32BE(4)];
      if (length < 8 || length > LONGEST_START) return client.destroy();
      if (held.length < length) return;
      if (code === SSL_REQUEST || code === GSS_REQUEST) {
        held = held.subarray(length);
        client.write('N');
        continue;
      }
      client.off('data', read);
      const { user, database = user } = code === CANCEL_REQUEST ? login : startOf(held.subarray(8, length));
      if (user === login.user && database === login.database)
        connectBoth(client, socketPath, held, () => clearTimeout(late));
      else
        client.end(refusal('28000', `this port takes the login ${login.user} of the database ${login.database} alone`));
      return;
    }
  };
  client.on('data', read);
}

function connectBoth(client: Socket, socketPath: string, first: Buffer, onAdmitted: () => void): void {
  const server = connect(socketPath);
  let sent = Buffer.alloc(0);
  const look = (chunk: Buffer) => {
    sent = Buffer.concat([sent, chunk]);
    if (!admits(sent)) return;
    server.off('data', look);
    onAdmitted();
  };
  server.on('data', look);
  const both = () => {
    client.destroy();
    server.destroy();
  };
  server.on('error', both).once('close', both);
  client.once('close', both);
  server.write(first);
  client.pipe(server);
  server.pipe(client);
}

/** Names and values, each ended by a zero, and a zero at the end. */
function startOf(body: Buffer): { user?: string; database?: string } {
  const words = body.toString('utf8').split('\0');
  const values = new Map<string, string>();
  for (let i = 0; i + 1 < words.length && words[i] !== ''; i += 2) values.set(words[i]!, words[i + 1]!);
  const [user, database] = [values.get('user'), values.get('database')];
  return { ...(user !== undefined && { user }), ...(database !== undefined && { database }) };
}

/** True where these messages of the server hold AuthenticationOk. */
function admits(sent: Buffer): boolean {
  for (let at = 0; at + 9 <= sent.length; at += 1 + sent.readInt32BE(at + 1))
    if (sent[at] === 'R'.charCodeAt(0) && sent.readInt32BE(at + 5) === 0) return true;
  return false;
}

/** An ErrorResponse. */
function refusal(state: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${state}\0M${message}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}
