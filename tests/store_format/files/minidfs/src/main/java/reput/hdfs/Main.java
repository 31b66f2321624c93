package reput.hdfs;

import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A namenode and a datanode in one process, on 127.0.0.1, until standard input ends. */
public final class Main {
    public static void main(String[] words) throws Exception {
        Configuration conf = new Configuration();
        conf.setInt("dfs.replication", 1);
        conf.setLong("dfs.blocksize", 1 << 20); // files of many blocks
        // A file is closed when its last block has been reported; asked again after 400 ms.
        conf.setInt("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", 5);
        MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf, new File(words[0]))
            .numDataNodes(1).format(true).build();
        cluster.waitActive();
        System.out.println("http " + cluster.getNameNode().getHttpAddress().getPort()
            + " rpc " + cluster.getNameNodePort());
        while (System.in.read() >= 0) { }
        cluster.shutdown(true);
        System.exit(0);
    }
}
