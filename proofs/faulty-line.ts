/** A line between a client and a server on this machine that can be cut and made slow. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export type FaultyLine = {
  readonly port: number;
  /** Ends every connection, and refuses new ones until it is mended. */
  readonly cut: () => void;
  /** Holds everything back for so long, both ways. */
  readonly slow: (ms: number) => void;
  readonly mend: () => void;
  readonly close: () => Promise<void>;
};

/** A line to a port. */
export async function openLine(to: number): Promise<FaultyLine> {
  const sockets = new Set<Socket>();
  let isCut = false;
  let delayMs = 0;
  const carry = (from: Socket, into: Socket): void => {
    sockets.add(from);
    let last = Promise.resolve();
    const then = (work: () => void) => {
      const due = delayMs === 0 ? null : new Promise<void>((resolve) => setTimeout(resolve, delayMs));
      last = last.then(async () => {
        await due;
        work();
      });
    };
    from.on('data', (chunk) => then(() => into.write(chunk)));
    from.on('end', () => then(() => into.end()));
    from.on('error', () => into.destroy());
    from.on('close', () => {
      sockets.delete(from);
      then(() => into.destroy());
    });
  };
  const server = createServer((client) => {
    if (isCut) {
      client.destroy();
      return;
    }
    const target = connect(to, '127.0.0.1');
    carry(client, target);
    carry(target, client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    port: (server.address() as AddressInfo).port,
    cut: () => {
      isCut = true;
      endAll();
    },
    slow: (ms) => {
      delayMs = ms;
    },
    mend: () => {
      isCut = false;
      delayMs = 0;
    },
    close: async () => {
      endAll();
      server.close();
      await once(server, 'close');
    },
  };
}
