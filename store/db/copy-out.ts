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
 * Submit it by the driver's `client.query`, which calls its methods while this is its query, and read `chunks` to the end; a connection left
 * before that is of no use any more.
 */
export class CopyOut {
  private readonly ready: Buffer<ArrayBuffer>[] = [];
  /** Pieces that may be filled again. */
  private readonly free: Buffer<ArrayBuffer>[] = [];
  private waiting = 0;
  private piece = Buffer.allocUnsafeSlow(PIECE);
  private filled = 0;
  /** Bytes that the row under way still has. */
  private left = 0;
  /** A message that is not a row, or the head of one, of which more is to come. */
  private begun: Buffer | null = null;
  private stream: Wire['stream'] | null = null;
  private driver: Listener = () => {};
  private ended = false;
  private failure: Error | null = null;
  private wake = () => {};
  private readonly sql: string;
  private readonly again: boolean;

  /** @param again the bytes of a piece may be changed once the next is asked for */
  constructor(sql: string, again: boolean) {
    this.sql = sql;
    this.again = again;
  }

  private handOn(): void {
    this.ready.push(this.piece.subarray(0, this.filled));
    this.waiting += this.filled;
    this.filled = 0;
    if (this.waiting >= WAITING) this.stream?.pause();
    this.wake();
  }

  private keep(bytes: Buffer): void {
    for (let at = 0; at < bytes.length; ) {
      const more = Math.min(bytes.length - at, PIECE - this.filled);
      bytes.copy(this.piece, this.filled, at, at + more);
      this.filled += more;
      at += more;
      if (this.filled < PIECE) break;
      this.handOn();
      this.piece = this.free.pop() ?? Buffer.allocUnsafeSlow(PIECE);
    }
  }

  /** Gives the socket back to the driver, which reads on from `rest`. */
  private detach(rest: Buffer): void {
    const socket = this.stream!;
    if (this.filled > 0) this.handOn();
    this.ended = true;
    socket.off('data', this.onData);
    socket.on('data', this.driver);
    socket.lends = false;
    this.stream = null;
    if (rest.length > 0) this.driver(Buffer.from(rest));
    process.nextTick(() => socket.resume());
    this.wake();
  }

  private readonly onData = (came: Buffer) => {
    const bytes = this.begun === null ? came : Buffer.concat([this.begun, came]);
    this.begun = null;
    let at = 0;
    let kept = 0;
    for (;;) {
      if (this.left > 0) {
        const more = Math.min(this.left, bytes.length - at);
        // Rows move towards the front only, over what was read already.
        bytes.copyWithin(kept, at, at + more);
        kept += more;
        at += more;
        this.left -= more;
      }
      if (bytes.length - at < HEAD) break;
      const code = bytes[at];
      const content = bytes.readUInt32BE(at + 1) - 4;
      if (code === COPY_DATA) {
        this.left = content;
        at += HEAD;
        continue;
      }
      if (code === ERROR_RESPONSE) {
        this.keep(bytes.subarray(0, kept));
        return this.detach(bytes.subarray(at));
      }
      const end = at + HEAD + content;
      if (end > bytes.length) break;
      if (code === COPY_DONE) {
        this.keep(bytes.subarray(0, kept));
        return this.detach(bytes.subarray(end));
      }
      if (code !== COPY_OUT_RESPONSE) this.driver(Buffer.from(bytes.subarray(at, end)));
      at = end;
    }
    if (at < bytes.length) this.begun = Buffer.from(bytes.subarray(at));
    this.keep(bytes.subarray(0, kept));
  };

  submit(connection: Wire): void {
    this.stream = connection.stream;
    this.driver = this.stream.listeners('data')[0] as Listener;
    this.stream.off('data', this.driver);
    this.stream.on('data', this.onData);
    this.stream.lends = true;
    connection.query(this.sql);
  }

  handleError(error: Error): void {
    this.failure = error;
    this.wake();
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {}

  /** The bytes in order, in pieces of any size. Throws the server's error. */
  async *chunks(): AsyncGenerator<Buffer, void, undefined> {
    for (;;) {
      while (this.ready.length > 0) {
        const bytes = this.ready.shift()!;
        this.waiting -= bytes.length;
        yield bytes;
        if (this.again && bytes.length === PIECE) this.free.push(bytes);
        if (this.waiting < WAITING && this.stream?.isPaused()) this.stream.resume();
      }
      if (this.failure !== null) throw this.failure;
      if (this.ended) return;
      await new Promise<void>((resolve) => {
        this.wake = resolve;
      });
    }
  }
}
