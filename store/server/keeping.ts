/** The messages between a keeper and its users. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { ErrorCode } from '../../errors.ts';
import type { Home } from './home.ts';

/** What the starter asks of a keeper, as its only argument. */
export type KeeperOrder = {
  readonly home: string;
  readonly durable?: boolean;
  /** A TCP port of 127.0.0.1 that the server listens on besides its socket. */
  readonly port?: number;
  /** How long the server outlives its last user. */
  readonly idleMs: number;
  /** The folder of `defaultBase`, where another is wanted. */
  readonly base?: string;
};

/** The one message of a keeper to its starter. */
export type KeeperReport =
  | { readonly outcome: 'ready' | 'another' }
  | { readonly outcome: 'failed'; readonly code: ErrorCode; readonly message: string };

/** The message of a keeper to each user. */
export type ServerAddress = { readonly url: string };

/** The socket and token of the keeper; it may be left over from one that was killed, so only its answer counts. */
export const keeperFile = (home: Home): string => join(home.run, 'keeper.json');

/** A keeper of an earlier version that still runs listens on a `port` of 127.0.0.1. */
type KeeperFile = { readonly path?: string; readonly port?: number; readonly token: string; readonly pid: number };

const ANSWER_MS = 3000;

function readKeeperFile(home: Home): KeeperFile | null {
  try {
    return JSON.parse(readFileSync(keeperFile(home), 'utf8')) as KeeperFile;
  } catch {
    return null; // None, or damaged: then there is no keeper to be found.
  }
}

/** The process id of the keeper the home's file names, which may be dead, or null. */
export const keeperPid = (home: Home): number | null => readKeeperFile(home)?.pid ?? null;

/** Becomes a user of the living keeper, for as long as the socket is open; null when there is none. */
export function joinKeeper(home: Home): Promise<{ socket: Socket; address: ServerAddress } | null> {
  const keeper = readKeeperFile(home);
  if (keeper === null) return Promise.resolve(null);
  return new Promise((resolve) => {
    const socket = keeper.path === undefined ? connect(keeper.port ?? 0, '127.0.0.1') : connect(keeper.path);
    let received = '';
    const give = (address: ServerAddress | null) => {
      clearTimeout(patience);
      socket.off('data', onText);
      if (address === null) socket.destroy();
      resolve(address && { socket, address });
    };
    const onText = (text: string) => {
      received += text;
      if (!received.endsWith('\n')) return;
      try {
        give(JSON.parse(received) as ServerAddress);
      } catch {
        give(null); // Another program answers at that port.
      }
    };
    const patience = setTimeout(() => give(null), ANSWER_MS);
    socket.setEncoding('utf8').on('data', onText);
    socket.once('connect', () => socket.write(`${keeper.token}\n`));
    socket.once('close', () => give(null));
    socket.on('error', () => {});
  });
}
