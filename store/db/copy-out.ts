/**
 * The bytes of a `COPY … TO STDOUT`, taken from the connection's socket. The server sends a message for each row, so whatever makes
 * an object of each message costs more than the rows themselves: here the rows of a read are moved together in place, and whole
 * pieces of them are handed on. All other messages go to the driver, which keeps its view of the connection.
 */
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import type { Duplex } from 'node:stream';

/** What is used of the driver's connection. */
type Wire = { readonly stream: Duplex & { lends?: boolean }; query(sql: string): void };
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

/** Bytes of one read at most. */
const READ = 64 * 1024;

/**
 * A socket that reads into one buffer. With a buffer for each read, which is how others read, the garbage collector took most of the time
 * of an export. Whoever listens to `data` is given a copy, or while it `lends` the buffer itself, until the listener returns.
 */
export class ReadingSocket extends Socket {
  lends = false;
  constructor() {
    const buffer = Buffer.allocUnsafeSlow(READ);
    const callback = (length: number) => {
      const bytes = buffer.subarray(0, length);
      return this.emit('data', this.lends ? bytes : Buffer.from(bytes));
    };
    super({ onread: { buffer, callback } } as SocketConstructorOpts & { readonly onread: OnReadOpts });
  }
}

/** Reads are gathered in pieces of this size. */
const PIECE = 256 * 1024;
/** So many bytes wait to be read before the socket waits. */
const WAITING = 512 * 1024;

/** A message is its code, its length with these four bytes of length, and its content. */
const HEAD = 5;
const COPY_DATA = 0x64;
const COPY_OUT_RESPONSE = 0x48;
const COPY_DONE = 0x63;
const ERROR_RESPONSE = 0x45;

/**
 * Submit it by the driver's `client.query` and read `chunks` to the end; a connection left before that is of no use any more.
 * @param again the bytes of a piece may be changed once the next is asked for
 */
export function copyOut(sql: string, again: boolean): CopyOut {
  const ready: Buffer<ArrayBuffer>[] = [];
  /** Pieces that may be filled again. */
  const free: Buffer<ArrayBuffer>[] = [];
  let waiting = 0;
  let piece = Buffer.allocUnsafeSlow(PIECE);
  let filled = 0;
  /** Bytes that the row under way still has. */
  let left = 0;
  /** A message that is not a row, or the head of one, of which more is to come. */
  let begun: Buffer | null = null;
  let stream: Wire['stream'] | null = null;
  let driver: Listener = () => {};
  let ended = false;
  let failure: Error | null = null;
  let wake = () => {};

  const handOn = () => {
    ready.push(piece.subarray(0, filled));
    waiting += filled;
    filled = 0;
    if (waiting >= WAITING) stream?.pause();
    wake();
  };
  const keep = (bytes: Buffer) => {
    for (let at = 0; at < bytes.length; ) {
      const more = Math.min(bytes.length - at, PIECE - filled);
      bytes.copy(piece, filled, at, at + more);
      filled += more;
      at += more;
      if (filled < PIECE) break;
      handOn();
      piece = free.pop() ?? Buffer.allocUnsafeSlow(PIECE);
    }
  };
  /** Gives the socket back to the driver, which reads on from `rest`. */
  const detach = (rest: Buffer) => {
    const socket = stream!;
    if (filled > 0) handOn();
    ended = true;
    socket.off('data', onData);
    socket.on('data', driver);
    socket.lends = false;
    stream = null;
    if (rest.length > 0) driver(Buffer.from(rest));
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
      stream.lends = true;
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
          if (again && bytes.length === PIECE) free.push(bytes);
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
