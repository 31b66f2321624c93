//! A consumer by remoting: push, orderly, broadcast or pop; programs.py has its words and what it
//! prints.
#![recursion_limit = "512"]

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use rocketmq_client_rust::{
    ClientError, ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus, ConsumeOrderlyContext, ConsumeOrderlyStatus, DefaultMQPushConsumer,
    MQPushConsumer, MessageSelector, TelemetryHandle,
};
use rocketmq_model::common::consumer::consume_from_where::ConsumeFromWhere;
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_protocol::protocol::heartbeat::message_model::MessageModel;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};

static LEFT: AtomicI64 = AtomicI64::new(0);

#[tokio::main]
async fn main() -> ClientResult<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    LEFT.store(words[6].parse().expect("how many messages"), Ordering::SeqCst);
    let end = Instant::now() + Duration::from_millis(words[7].parse().expect("milliseconds"));
    let owner = RuntimeOwner::plan(RuntimeConfig::default())
        .expect("a runtime")
        .build()
        .map_err(|source| ClientError::internal("runtime", source))?;
    let runtime = ClientRuntime::try_new(
        owner.root_context().component("client"),
        ClientRuntimeConfig::default(),
        TelemetryHandle::noop(),
    )?;
    let mut consumer = DefaultMQPushConsumer::builder(runtime)
        .consumer_group(words[2].clone())
        .name_server_addr(words[0].clone())
        .message_model(if words[1] == "broadcast" {
            MessageModel::Broadcasting
        } else {
            MessageModel::Clustering
        })
        .consume_from_where(ConsumeFromWhere::ConsumeFromFirstOffset)
        .client_rebalance(words[1] != "pop")
        // With more threads than its runtime has for listeners, it takes a message for one that
        // the listener has refused (and, broadcast, drops it): at any broker.
        .consume_thread_min(1)
        .consume_thread_max(1)
        .build();
    let selector = if words[4] == "sql" {
        MessageSelector::by_sql(words[5].clone())
    } else {
        MessageSelector::by_tag(words[5].clone())
    };
    consumer.subscribe_with_selector(&words[3], Some(selector)).await?;
    if words[1] == "orderly" {
        consumer.register_message_listener_orderly(
            |messages: &[&MessageExt], _: &mut ConsumeOrderlyContext| {
                took(messages);
                Ok(ConsumeOrderlyStatus::Success)
            },
        );
    } else {
        consumer.register_message_listener_concurrently(
            |messages: &[&MessageExt], _: &ConsumeConcurrentlyContext| {
                took(messages);
                Ok(ConsumeConcurrentlyStatus::ConsumeSuccess)
            },
        );
    }
    consumer.start().await?;
    while LEFT.load(Ordering::SeqCst) > 0 && Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await; // for what it is given beyond
    consumer.shutdown().await;
    std::process::exit(0)
}

fn took(messages: &[&MessageExt]) {
    for each in messages {
        let text = each.keys().unwrap_or_default().join(" ");
        let mut keys: Vec<&str> = text.split_whitespace().collect();
        keys.sort_unstable();
        let body: String = each
            .body()
            .map(|body| body.iter().map(|byte| format!("{byte:02x}")).collect())
            .unwrap_or_default();
        let attempt = each.reconsume_times() + 1;
        println!("{attempt} {} {} {body}", each.msg_id(), keys.join(","));
        LEFT.fetch_sub(1, Ordering::SeqCst);
    }
}
