/**
 * The bytes of a `COPY … TO STDOUT`, taken from the connection's socket. The server sends a message for each row, so whatever makes
 * an object of each message costs more than the rows themselves: here the rows of a read are moved together in place, and whole
 * pieces of them are handed on. All other messages go to the driver, which keeps its view of the connection.
 */
import type { Duplex } from 'node:stream';

/** What is used of the driver's connection. */
type Wire = { readonly stream: Duplex; query(sql: string): void };
type Listener = (bytes: Buffer) => void;

/** What the driver's client calls while this is its query. */
export type CopyOut = {
  submit(connection: Wire): void;
  handleError(error: Error): void;
  handleCommandComplete(): void;
  handleReadyForQuery(): void;
  /** The bytes in order, in pieces of any size. Throws the server's error. */
  chunks(): AsyncGenerator<Buffer, void, undefined>;
};

/** Short reads are gathered in pieces of this size; a read of at least `LONG` bytes is handed on as it is. */
const PIECE = 256 * 1024;
const LONG = 32 * 1024;
/** So many bytes wait to be read before the socket waits. */
const WAITING = 512 * 1024;

/** A message is its code, its length with these four bytes of length, and its content. */
const HEAD = 5;
const COPY_DATA = 0x64;
const COPY_OUT_RESPONSE = 0x48;
const COPY_DONE = 0x63;
const ERROR_RESPONSE = 0x45;

/** Submit it by the driver's `client.query` and read `chunks` to the end; a connection left before that is of no use any more. */
export function copyOut(sql: string): CopyOut {
  const ready: Buffer[] = [];
  let waiting = 0;
  let piece = Buffer.alloc(0);
  let filled = 0;
  /** Bytes that the row under way still has. */
  let left = 0;
  /** A message that is not a row, or the head of one, of which more is to come. */
  let begun: Buffer | null = null;
  let stream: Duplex | null = null;
  let driver: Listener = () => {};
  let ended = false;
  let failure: Error | null = null;
  let wake = () => {};

  const handOn = (bytes: Buffer) => {
    if (bytes.length === 0) return;
    ready.push(bytes);
    waiting += bytes.length;
    if (waiting >= WAITING) stream?.pause();
    wake();
  };
  const handOnPiece = () => {
    handOn(piece.subarray(0, filled));
    piece = piece.subarray(filled);
    filled = 0;
  };
  const keep = (bytes: Buffer) => {
    if (bytes.length >= LONG) {
      handOnPiece();
      handOn(bytes);
      return;
    }
    if (bytes.length > piece.length - filled) {
      handOnPiece();
      piece = Buffer.allocUnsafeSlow(PIECE);
    }
    piece.set(bytes, filled);
    filled += bytes.length;
  };
  /** Gives the socket back to the driver, which reads on from `rest`. */
  const detach = (rest: Buffer) => {
    const socket = stream!;
    handOnPiece();
    ended = true;
    socket.off('data', onData);
    socket.on('data', driver);
    stream = null;
    if (rest.length > 0) driver(rest);
    process.nextTick(() => socket.resume());
    wake();
  };
  const onData = (came: Buffer) => {
    const bytes = begun === null ? came : Buffer.concat([begun, came]);
    begun = null;
    let at = 0;
    let kept = 0;
    for (;;) {
      if (left > 0) {
        const more = Math.min(left, bytes.length - at);
        // Rows move towards the front only, over what was read already.
        bytes.copyWithin(kept, at, at + more);
        kept += more;
        at += more;
        left -= more;
      }
      if (bytes.length - at < HEAD) break;
      const code = bytes[at];
      const content = bytes.readUInt32BE(at + 1) - 4;
      if (code === COPY_DATA) {
        left = content;
        at += HEAD;
        continue;
      }
      if (code === ERROR_RESPONSE) {
        keep(bytes.subarray(0, kept));
        return detach(bytes.subarray(at));
      }
      const end = at + HEAD + content;
      if (end > bytes.length) break;
      if (code === COPY_DONE) {
        keep(bytes.subarray(0, kept));
        return detach(bytes.subarray(end));
      }
      if (code !== COPY_OUT_RESPONSE) driver(Buffer.from(bytes.subarray(at, end)));
      at = end;
    }
    if (at < bytes.length) begun = Buffer.from(bytes.subarray(at));
    keep(bytes.subarray(0, kept));
  };

  return {
    submit(connection) {
      stream = connection.stream;
      driver = stream.listeners('data')[0] as Listener;
      stream.off('data', driver);
      stream.on('data', onData);
      connection.query(sql);
    },
    handleError(error) {
      failure = error;
      wake();
    },
    handleCommandComplete() {},
    handleReadyForQuery() {},
    async *chunks() {
      for (;;) {
        while (ready.length > 0) {
          const bytes = ready.shift()!;
          waiting -= bytes.length;
          yield bytes;
          if (waiting < WAITING && stream?.isPaused()) stream.resume();
        }
        if (failure !== null) throw failure;
        if (ended) return;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}
