/** The cancel request of PostgreSQL's protocol: whoever holds a connection may cancel its statement, whatever the role may do. */
import { connect } from 'node:net';

/** Where a connection's backend is, and the key that it gave at the start. */
export type Backend = {
  readonly host: string;
  readonly port: number;
  readonly processID: number;
  readonly secretKey: number;
};

const CODE = 80877102;

/**
 * Asks the server to cancel what the backend runs. The server sends no reply, and a request that is lost has no effect: whoever needs
 * certainty cuts the connection afterwards.
 */
export function requestCancel({ host, port, processID, secretKey }: Backend): void {
  const request = Buffer.alloc(16);
  request.writeInt32BE(request.length, 0);
  request.writeInt32BE(CODE, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  socket.on('error', () => {});
  socket.end(request);
  socket.resume();
}
